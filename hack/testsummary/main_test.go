// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

const (
	passing = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"noise\n"}
{"Action":"pass","Package":"p","Test":"TestA/one"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Elapsed":1}
{"Action":"skip","Package":"empty"}
`
	failing = `{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"what went wrong\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"fail","Package":"p"}
`
	panicking = `{"Action":"output","Package":"p","Test":"TestC","Output":"panic: oh\n"}
{"Action":"fail","Package":"p"}
`
	broken = `{"ImportPath":"p","Action":"build-output","Output":"undefined: x\n"}
{"ImportPath":"p","Action":"build-fail"}
{"Action":"fail","Package":"p","FailedBuild":"p"}
`
)

func TestRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in           string
		want         counts
		shown, still []string
	}{
		"passing":   {passing, counts{2, 0}, []string{"ok\tp"}, []string{"noise"}},
		"failing":   {failing, counts{1, 1}, []string{"what went wrong", "FAIL\tp TestB"}, nil},
		"panicking": {panicking, counts{0, 1}, []string{"panic: oh", "TestC never ended"}, nil},
		"broken":    {broken, counts{0, 1}, []string{"undefined: x"}, nil},
		"nothing":   {"", counts{}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			got, err := read(strings.NewReader(c.in), &out)
			if err != nil || got != c.want {
				t.Errorf("read %v, %v, want %v", got, err, c.want)
			}
			for _, s := range c.shown {
				if !strings.Contains(out.String(), s) {
					t.Errorf("%q is not shown:\n%s", s, &out)
				}
			}
			for _, s := range c.still {
				if strings.Contains(out.String(), s) {
					t.Errorf("%q is shown:\n%s", s, &out)
				}
			}
		})
	}
}

func TestTotal(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		runs   []string
		want   string
		failed bool
	}{
		"two that pass":          {[]string{passing, passing}, "4 passed, 0 failed\n", false},
		"a failure in the first": {[]string{failing, passing}, "3 passed, 1 failed\n", true},
		"what cannot be read":    {[]string{passing, "no JSON"}, "2 passed, 1 failed\n", true},
		"nothing":                {[]string{""}, "0 passed, 0 failed\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "results")
			for _, run := range c.runs {
				var out strings.Builder
				err := addRun(strings.NewReader(run), &out, file)
				if run == failing && !errors.Is(err, errFailed) {
					t.Errorf("a failed run ends with %v", err)
				}
			}
			var out strings.Builder
			if err := printTotal(&out, file); (err != nil) != c.failed {
				t.Errorf("the total ends with %v, want an error: %t", err, c.failed)
			}
			if out.String() != c.want {
				t.Errorf("the total is %q, want %q", &out, c.want)
			}
		})
	}
}
