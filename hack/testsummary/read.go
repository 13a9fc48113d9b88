// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// counts are of tests and subtests. A package that fails by itself (it does not
// build, it panics, its time is up) counts as one failure.
type counts struct{ passed, failed int }

func (c counts) String() string { return fmt.Sprintf("%d passed, %d failed", c.passed, c.failed) }

func (c counts) verdict() error {
	if c.failed > 0 {
		return errFailed
	}
	return nil
}

// event is one line of "go test -json" (go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64
}

type test struct{ pkg, name string }

// reader keeps the output of what runs, to show that of what fails.
type reader struct {
	out    io.Writer
	counts counts
	output map[test]*strings.Builder
	// failed counts the failed tests of packages that have not ended.
	failed map[string]int
}

func read(in io.Reader, out io.Writer) (counts, error) {
	r := reader{out: out, output: map[test]*strings.Builder{}, failed: map[string]int{}}
	decoder := json.NewDecoder(in)
	for {
		var e event
		if err := decoder.Decode(&e); errors.Is(err, io.EOF) {
			return r.counts, nil
		} else if err != nil {
			return r.counts, fmt.Errorf("want the output of go test -json: %w", err)
		}
		if err := r.take(e); err != nil {
			return r.counts, err
		}
	}
}

func (r *reader) take(e event) error {
	id := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		_, err := io.WriteString(r.out, e.Output)
		return err
	case "output":
		if r.output[id] == nil {
			r.output[id] = &strings.Builder{}
		}
		r.output[id].WriteString(e.Output)
	case "pass", "fail", "skip":
		var kept string
		if b := r.output[id]; b != nil {
			kept = b.String()
		}
		delete(r.output, id)
		if e.Test != "" {
			return r.endTest(e, kept)
		}
		return r.endPackage(e, kept)
	}
	return nil
}

func (r *reader) endTest(e event, kept string) error {
	var err error
	switch e.Action {
	case "pass":
		r.counts.passed++
	case "skip":
		_, err = fmt.Fprintf(r.out, "skip\t%s %s\n", e.Package, e.Test)
	case "fail":
		r.counts.failed++
		r.failed[e.Package]++
		_, err = fmt.Fprintf(r.out, "FAIL\t%s %s\n%s", e.Package, e.Test, kept)
	}
	return err
}

func (r *reader) endPackage(e event, kept string) error {
	if e.Action != "fail" {
		_, err := fmt.Fprintf(r.out, "%s\t%s\t%.1fs\n", map[string]string{"pass": "ok", "skip": "-"}[e.Action], e.Package, e.Elapsed)
		return err
	}
	if r.failed[e.Package] == 0 {
		r.counts.failed++
	}
	// A panic or a timeout is in the output of tests that never ended.
	for id, output := range r.output {
		if id.pkg != e.Package {
			continue
		}
		delete(r.output, id)
		if _, err := fmt.Fprintf(r.out, "FAIL\t%s %s never ended\n%s", id.pkg, id.name, output); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(r.out, "FAIL\t%s\t%.1fs\n%s", e.Package, e.Elapsed, kept)
	return err
}
