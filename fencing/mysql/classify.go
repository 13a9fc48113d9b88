// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/go-sql-driver/mysql"

	"leasehold.dev/fencing"
)

const (
	errNoSavepoint = 1305 // ER_SP_DOES_NOT_EXIST
	errNoTable     = 1146 // ER_NO_SUCH_TABLE
	errReadOnly    = 1290 // ER_OPTION_PREVENTS_STATEMENT
)

// conflicts are errors after which nothing was done and another try may do
// better, also when they come from a commit.
var conflicts = []uint16{
	1020, // ER_CHECKREAD: innodb_snapshot_isolation
	1205, // ER_LOCK_WAIT_TIMEOUT
	1213, // ER_LOCK_DEADLOCK, also a cluster's refusal of a commit
	1614, // ER_XA_RBDEADLOCK
	3572, // ER_LOCK_NOWAIT
	3101, // ER_TRANSACTION_ROLLBACK_DURING_COMMIT: group replication
}

// unavailable are errors of a server that is full, stopping, or has ended the
// session. If it was a commit, it may have happened.
var unavailable = []uint16{
	1040,                   // ER_CON_COUNT_ERROR
	1053,                   // ER_SERVER_SHUTDOWN
	1152,                   // ER_ABORTING_CONNECTION
	1158, 1159, 1160, 1161, // ER_NET_…
	1203, // ER_TOO_MANY_USER_CONNECTIONS
	1927, // ER_CONNECTION_KILLED
	4031, // ER_CLIENT_INTERACTION_TIMEOUT
}

// classify gives an error its class in package fencing, or returns it as it is:
// then nothing was done, and trying again would not help. Every failure after a
// commit may have been sent is ErrUnknown unless the server says otherwise.
func classify(ctx context.Context, err error, claim fencing.Claim, committing bool) error {
	if err == nil || classified(err) {
		return err
	}
	if myErr, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return classifyNumber(myErr, err, claim, committing)
	}
	switch {
	case committing:
		return &fencing.UnknownError{Mine: claim, Err: err}
	case ctx.Err() == nil && isBroken(err) && !isContext(err):
		return &fencing.RetryError{Mine: claim, Err: err}
	default: // the caller's own, or one that will not pass
		return err
	}
}

func classifyNumber(myErr *mysql.MySQLError, err error, claim fencing.Claim, committing bool) error {
	switch {
	case slices.Contains(conflicts, myErr.Number):
		return &fencing.RetryError{Mine: claim, Err: err}
	case committing:
		return &fencing.UnknownError{Mine: claim, Err: err}
	case slices.Contains(unavailable, myErr.Number):
		return &fencing.RetryError{Mine: claim, Err: err}
	case myErr.Number == errNoTable:
		return fmt.Errorf("%w; if it is a table of the marks, run mysql.Install in this database", err)
	case myErr.Number == errReadOnly:
		return fmt.Errorf("%w; a guard works on the primary", err)
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

// isBroken tells whether an error is of a connection that could not be made or
// broke. Before a commit was sent nothing has been done then.
func isBroken(err error) bool {
	var netErr net.Error
	return errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, driver.ErrBadConn) || errors.As(err, &netErr)
}

// isContext tells whether an error is of a context. That of a deadline looks
// like one of the network.
func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func isNumber(err error, number uint16) bool {
	myErr, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && myErr.Number == number
}
