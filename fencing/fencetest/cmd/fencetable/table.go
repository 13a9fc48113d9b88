// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"leasehold.dev/fencing/fencetest"
)

// table is what the lines of a results file say; where a case was run several
// times, the worst counts.
type table struct {
	adapters []string
	cases    []string
	cells    map[[2]string]fencetest.Result // by case and adapter
	naive    []fencetest.Result
}

func read(in io.Reader) (*table, error) {
	t := &table{cells: map[[2]string]fencetest.Result{}}
	for d := json.NewDecoder(in); ; {
		var r fencetest.Result
		switch err := d.Decode(&r); {
		case errors.Is(err, io.EOF):
			return t, nil
		case err != nil:
			return nil, fmt.Errorf("read results: %w", err)
		}
		t.add(r)
	}
}

func (t *table) add(r fencetest.Result) {
	if r.Naive != "" {
		t.naive = append(t.naive, r)
		return
	}
	t.adapters, t.cases = with(t.adapters, r.Adapter), with(t.cases, r.Case)
	at := [2]string{r.Case, r.Adapter}
	if last, ok := t.cells[at]; ok && last.Outcome == fencetest.OutcomeFail {
		return
	}
	t.cells[at] = r
}

func with(words []string, word string) []string {
	if slices.Contains(words, word) {
		return words
	}
	return append(words, word)
}

// shown sets apart what must not be overlooked.
func shown(o fencetest.Outcome) string {
	switch o {
	case fencetest.OutcomeFail, fencetest.OutcomeMissed:
		return strings.ToUpper(string(o))
	case "":
		return "-"
	}
	return string(o)
}

func (t *table) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	// What cannot be written is told by Flush.
	fmt.Fprintf(w, "case\t%s\n", strings.Join(t.adapters, "\t"))
	for _, name := range t.cases {
		row := []string{name}
		for _, adapter := range t.adapters {
			row = append(row, shown(t.cells[[2]string{name, adapter}].Outcome))
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	fmt.Fprintf(w, "\nadapter\tnaive variant\tcase\tresult\n")
	for _, r := range t.naive {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Adapter, r.Naive, r.Case, shown(r.Outcome))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return t.printDetails(out)
}

// printDetails says what the contended cases did, and what failed.
func (t *table) printDetails(out io.Writer) error {
	var lines []string
	for _, adapter := range t.adapters {
		for _, name := range t.cases {
			r := t.cells[[2]string{name, adapter}]
			if name == fencetest.CaseContended && r.Outcome != "" || r.Outcome == fencetest.OutcomeFail {
				lines = append(lines, fmt.Sprintf("%s, %s: %s (seed %d): %s", adapter, name, shown(r.Outcome), r.Seed, r.Detail))
			}
		}
	}
	_, err := fmt.Fprintf(out, "\n%s\n", strings.Join(lines, "\n"))
	return err
}

func (t *table) verdict() error {
	var faults []error
	for _, r := range t.cells {
		if r.Outcome == fencetest.OutcomeFail {
			faults = append(faults, fmt.Errorf("%s failed %s", r.Adapter, r.Case))
		}
	}
	for _, adapter := range t.adapters {
		if !slices.ContainsFunc(t.naive, func(r fencetest.Result) bool { return r.Adapter == adapter }) {
			faults = append(faults, fmt.Errorf("%s has no naive variant", adapter))
		}
	}
	for _, r := range t.naive {
		if r.Outcome != fencetest.OutcomeCaught {
			faults = append(faults, fmt.Errorf("%s of %s was not caught by %s", r.Naive, r.Adapter, r.Case))
		}
	}
	if len(t.adapters) == 0 {
		faults = append(faults, errors.New("no adapter was tried"))
	}
	return errors.Join(faults...)
}
