// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

const (
	armA    = `{"adapter":"a","case":"arm","outcome":"pass","seed":1}`
	armB    = `{"adapter":"b/long","case":"arm","outcome":"n/a","seed":2}`
	manyA   = `{"adapter":"a","case":"contended","outcome":"pass","detail":"10000 operations","seed":1}`
	failedA = `{"adapter":"a","case":"arm","outcome":"fail","detail":"it wrote","seed":7}`
	caughtA = `{"adapter":"a","naive":"check, then act","case":"contended","outcome":"caught","seed":1}`
	caughtB = `{"adapter":"b/long","naive":"none","case":"arm","outcome":"caught","seed":1}`
	missedA = `{"adapter":"a","naive":"check, then act","case":"contended","outcome":"missed","seed":1}`
)

func parse(t *testing.T, lines ...string) (*table, string) {
	t.Helper()
	got, err := read(strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := got.print(&text); err != nil {
		t.Fatal(err)
	}
	return got, text.String()
}

func TestTable(t *testing.T) {
	t.Parallel()
	_, got := parse(t, armA, armB, manyA, caughtA, caughtB)
	want := `case       a     b/long
arm        pass  n/a
contended  pass  -

adapter  naive variant    case       result
a        check, then act  contended  caught
b/long   none             arm        caught

a, contended: pass (seed 1): 10000 operations
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lines []string
		want  string
	}{
		"all well":                         {[]string{armA, armB, manyA, caughtA, caughtB}, ""},
		"a case failed":                    {[]string{armA, failedA, caughtA}, "a failed arm"},
		"a later success does not heal it": {[]string{failedA, armA, caughtA}, "a failed arm"},
		"a naive variant was missed":       {[]string{armA, missedA}, "check, then act of a was not caught by contended"},
		"there is none":                    {[]string{armA, armB, caughtA}, "b/long has no naive variant"},
		"nothing was run":                  {nil, "no adapter was tried"},
	} {
		got, text := parse(t, tc.lines...)
		err := got.verdict()
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || err.Error() != tc.want) {
			t.Errorf("%s: verdict is %v, want %q", name, err, tc.want)
		}
		if strings.Contains(tc.want, "failed") && !strings.Contains(text, "a, arm: FAIL (seed 7): it wrote") {
			t.Errorf("%s: the failure is not shown:\n%s", name, text)
		}
	}
	if _, err := read(strings.NewReader("{")); err == nil {
		t.Error("half a line is read")
	}
}
