// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"errors"
	"fmt"
	"strings"

	"modernc.org/sqlite"

	"leasehold.dev/fencing"
)

// SQLite's primary result codes, in the low byte of what the driver reports.
const (
	codeError    = 1 // SQLITE_ERROR
	codeBusy     = 5
	codeLocked   = 6
	codeReadOnly = 8
	codeIOErr    = 10
	codeProtocol = 15
	// codeCommitHook is an extended code: SQLITE_CONSTRAINT_COMMITHOOK.
	codeCommitHook = 531
)

// classify gives an error its class in package fencing, or returns it as it is:
// then nothing was done, and trying again would not help. Of failures of a
// commit, SQLite says itself that nothing was done, except where it could not
// tell what has reached the disk.
func classify(err error, claim fencing.Claim, committing bool) error {
	if err == nil || classified(err) {
		return err
	}
	switch code := code(err); {
	case code == codeBusy || code == codeLocked || code == codeProtocol:
		return &fencing.RetryError{Mine: claim, Err: err}
	case committing && (code == codeIOErr || code == 0):
		return &fencing.UnknownError{Mine: claim, Err: err}
	case code == codeReadOnly:
		return fmt.Errorf("%w; a guard needs a database that can be written to, and is where it was opened", err)
	case code == codeError && strings.Contains(err.Error(), "no such table"):
		return fmt.Errorf("%w; if it is a table of the marks, run sqlite.Install in this database", err)
	default:
		return err
	}
}

// classified tells whether the error has a class already: refusals by the mark,
// and what the steps of a transaction have found out themselves.
func classified(err error) bool {
	for _, class := range []error{
		fencing.ErrFenced, fencing.ErrNotRaised, fencing.ErrForeign, fencing.ErrNotArmed, fencing.ErrRetry, fencing.ErrUnknown,
	} {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}

// code is the primary result code of an error, or 0 if it is none of SQLite's.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code() & 0xff
	}
	return 0
}

// isEnded tells whether an error is of a transaction that has ended before: its
// savepoint is gone, or the gate has stopped what would have been committed.
func isEnded(err error) bool {
	e, ok := errors.AsType[*sqlite.Error](err)
	return ok && (e.Code() == codeCommitHook || e.Code() == codeError && strings.Contains(e.Error(), "no such savepoint"))
}
