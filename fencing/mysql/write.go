// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"regexp"
	"time"

	"leasehold.dev/fencing"
)

// endTimeout bounds what ends a transaction whose context may have ended. If it
// is exceeded the connection is closed, to the same effect.
const endTimeout = 5 * time.Second

// errEnded: see the package's text.
var errEnded = errors.New("the transaction ended before its function returned, by a deadlock that the function overlooked or by a " +
	"statement that commits; what the function did after that is rolled back")

// dml is what a statement of Exec begins with. Others may commit implicitly,
// and the lock on the mark would be gone before they take effect.
var dml = regexp.MustCompile(`(?i)^[\s(]*(insert|update|delete|replace|with)\b`)

// Exec runs one INSERT, UPDATE, DELETE or REPLACE on condition of the claim and
// returns the number of rows it affected, in a transaction of its own. Its
// arguments are those of database/sql.
//
// Zero rows and no error means that the claim was good and no row matched. A
// refusal, which says why, comes before the statement has touched anything. Call
// it only after Raise has returned. After fencing.ErrUnknown, look for the nonce
// that the statement stored.
func (g *Guard) Exec(ctx context.Context, claim fencing.Claim, query string, args ...any) (int64, error) {
	if err := g.ready(ctx, claim); err != nil {
		return 0, g.wrap("write", err)
	}
	if !dml.MatchString(query) {
		return 0, g.wrap("write", errors.New("Exec takes one INSERT, UPDATE, DELETE or REPLACE and no comment before it; use Tx"))
	}
	var rows int64
	var commit commitState
	err := inTransaction(ctx, g.db, func(tx *sql.Tx) error {
		if err := g.Check(ctx, tx, claim); err != nil {
			return err
		}
		// A server takes one statement only when it prepares one: a second one
		// after a COMMIT in the text would not be fenced.
		stmt, err := tx.PrepareContext(ctx, query)
		if err != nil {
			return err
		}
		defer func() { _ = stmt.Close() }()
		result, err := stmt.ExecContext(ctx, args...)
		if err != nil {
			return err
		}
		rows, err = result.RowsAffected()
		return err
	}, commit.commit)
	if err != nil {
		return 0, g.wrap("write", classify(ctx, err, claim, commit.sent))
	}
	return rows, nil
}

// Tx runs fn in a transaction on condition of the claim, and commits if fn
// returns nil. The mark is checked first, and stays as it is until the
// transaction has ended: a raise waits for it, so keep fn short.
//
// An error of fn rolls back and is returned; if it came from a conflict or a
// lost connection it matches fencing.ErrRetry. A transaction that fn, or a
// deadlock that fn overlooked, has ended is rolled back from there, with
// fencing.ErrRetry.
func (g *Guard) Tx(ctx context.Context, claim fencing.Claim, fn func(tx *sql.Tx) error) error {
	if err := g.ready(ctx, claim); err != nil {
		return g.wrap("write", err)
	}
	conn, err := g.db.Conn(ctx)
	if err != nil {
		return g.wrap("write", classify(ctx, err, claim, false))
	}
	defer func() { _ = conn.Close() }()
	var commit commitState
	err = withoutAutocommit(ctx, conn, func() error {
		return inTransaction(ctx, conn, func(tx *sql.Tx) error {
			if err := g.Check(ctx, tx, claim); err != nil {
				return err
			}
			return bracket(ctx, tx, claim, fn)
		}, commit.commit)
	})
	return g.wrap("write", classify(ctx, err, claim, commit.sent))
}

// Check refuses unless the mark is the claim, and keeps it so until tx ends: an
// accepted check makes the whole of tx conditional on the claim. It is for
// transactions that Tx cannot make, such as one with options of its own or one
// with marks of several resources. Such a transaction must stop at the first
// error of any statement: see the package's text for what happens after a
// deadlock. An error of the later Commit has no class: pass it to CommitError.
func (g *Guard) Check(ctx context.Context, tx *sql.Tx, claim fencing.Claim) error {
	if err := claim.Validate(); err != nil {
		return g.wrap("check", err)
	}
	m, err := g.mark(ctx, tx, "LOCK IN SHARE MODE")
	if err != nil {
		return g.wrap("check", classify(ctx, err, claim, false))
	}
	return g.wrap("check", fencing.DecideWrite(m, claim))
}

// CommitError gives the error of a Commit its class, for a transaction with
// Check. nil stays nil.
func (g *Guard) CommitError(ctx context.Context, claim fencing.Claim, err error) error {
	sent := !errors.Is(err, sql.ErrTxDone) && !errors.Is(err, driver.ErrBadConn)
	return g.wrap("commit", classify(ctx, err, claim, sent))
}

// bracket runs fn between setting a savepoint and releasing it. The release
// fails if the transaction is not the one of the savepoint any more.
func bracket(ctx context.Context, tx *sql.Tx, claim fencing.Claim, fn func(tx *sql.Tx) error) error {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT leasehold_check"); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "RELEASE SAVEPOINT leasehold_check")
	if isNumber(err, errNoSavepoint) {
		return &fencing.RetryError{Mine: claim, Err: errEnded}
	}
	return err
}

// commitState notes whether a commit may have reached the server.
type commitState struct{ sent bool }

func (c *commitState) commit(tx *sql.Tx) error {
	err := tx.Commit()
	c.sent = !errors.Is(err, sql.ErrTxDone) && !errors.Is(err, driver.ErrBadConn)
	return err
}

// beginner is a pool or a session.
type beginner interface {
	BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error)
}

// inTransaction runs fn in a transaction, and commit if fn returns nil;
// otherwise, or if ctx ends before, it rolls back.
func inTransaction(ctx context.Context, db beginner, fn, commit func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err := fn(tx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return commit(tx)
}

// withoutAutocommit runs fn while the session is out of autocommit mode. To
// return to that mode commits what is open, so whatever fn may have left is
// rolled back first, and a session in which that fails is closed. So is one whose
// context ended: package database/sql then rolls back in the background, and does
// not say when it has done so.
func withoutAutocommit(ctx context.Context, conn *sql.Conn, fn func() error) error {
	if _, err := conn.ExecContext(ctx, "SET autocommit = 0"); err != nil {
		discard(conn)
		return err
	}
	err := fn()
	if err != nil && ctx.Err() != nil {
		discard(conn)
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	end := []string{"SET autocommit = 1"}
	if err != nil {
		end = []string{"ROLLBACK", "SET autocommit = 1"}
	}
	for _, statement := range end {
		if _, endErr := conn.ExecContext(ctx, statement); endErr != nil {
			discard(conn)
			break
		}
	}
	return err
}

// discard closes a session for good instead of giving it back to its pool.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // which is how to say so
}
