// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Command fencetable prints what fencetest.Run wrote to the file that the
// environment variable FENCETEST_RESULTS named: adapter by case, then the naive
// variants with the cases that must catch them.
//
//	FENCETEST_RESULTS=$PWD/results.jsonl go test ./fencing/...
//	fencetable results.jsonl
//
// It ends with status 1 if a case failed, a naive variant was not caught, or an
// adapter came without one.
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: fencetable FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "fencetable:", err)
		os.Exit(1)
	}
}

func run(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	t, err := read(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := t.print(os.Stdout); err != nil {
		return err
	}
	return t.verdict()
}
