// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Command testsummary reads what "go test -json" writes, shows it to people, and
// adds up what passed and failed.
//
//	go test -json ./... | testsummary --add FILE   adds a run's counts to FILE
//	testsummary --total FILE                       ends with "N passed, N failed"
//
// Both end with status 1 if anything failed; --total also if nothing was run.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

var errFailed = errors.New("tests failed")

func main() {
	add := flag.String("add", "", "read results from standard input and add their counts to `FILE`")
	total := flag.String("total", "", "print the sum of the counts in `FILE`")
	flag.Parse()
	var err error
	switch {
	case *add != "" && *total == "" && flag.NArg() == 0:
		err = addRun(os.Stdin, os.Stdout, *add)
	case *total != "" && *add == "" && flag.NArg() == 0:
		err = printTotal(os.Stdout, *total)
	default:
		fmt.Fprintln(os.Stderr, "usage: testsummary --add FILE | --total FILE")
		os.Exit(2)
	}
	if err != nil {
		if !errors.Is(err, errFailed) {
			fmt.Fprintln(os.Stderr, "testsummary:", err)
		}
		os.Exit(1)
	}
}

func addRun(in io.Reader, out io.Writer, file string) error {
	counts, err := read(in, out)
	if err != nil {
		// What could not be read did not pass.
		counts.failed++
	}
	f, openErr := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if openErr != nil {
		return errors.Join(err, openErr)
	}
	_, writeErr := fmt.Fprintf(f, "%d %d\n", counts.passed, counts.failed)
	if err := errors.Join(err, writeErr, f.Close()); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, counts); err != nil {
		return err
	}
	return counts.verdict()
}

func printTotal(out io.Writer, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // Only read.
	var sum counts
	for {
		var run counts
		_, err := fmt.Fscanln(f, &run.passed, &run.failed)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		sum.passed += run.passed
		sum.failed += run.failed
	}
	if _, err := fmt.Fprintln(out, sum); err != nil {
		return err
	}
	if sum.passed+sum.failed == 0 {
		return fmt.Errorf("%s: no test was run", file)
	}
	return sum.verdict()
}
