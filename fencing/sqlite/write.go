// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"

	"modernc.org/sqlite"

	"leasehold.dev/fencing"
)

// errEnded: see the package's text.
var errEnded = errors.New("the transaction ended before its function returned, by an error that the function overlooked or by a " +
	"statement that commits or rolls back")

// errHook: see the package's text.
var errHook = errors.New("the driver has no commit hooks, without which a transaction that ends early goes on without a fence; " +
	"use modernc.org/sqlite")

// dml is what a statement of Exec begins with.
var dml = regexp.MustCompile(`(?i)^[\s(]*(insert|update|delete|replace|with)\b`)

// Exec runs one INSERT, UPDATE, DELETE or REPLACE on condition of the claim and
// returns the number of rows it affected, in a transaction of its own. Its
// arguments are those of database/sql.
//
// Zero rows and no error means that the claim was good and no row matched. A
// refusal, which says why, comes before the statement has touched anything. Call
// it only after Raise has returned.
func (g *Guard) Exec(ctx context.Context, claim fencing.Claim, query string, args ...any) (int64, error) {
	if !dml.MatchString(query) {
		return 0, g.wrap("write", errors.New("Exec takes one INSERT, UPDATE, DELETE or REPLACE and no comment before it; use Tx"))
	}
	var rows int64
	err := g.Tx(ctx, claim, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, query, args...)
		if err != nil {
			return err
		}
		rows, err = result.RowsAffected()
		return err
	})
	if err != nil {
		return 0, err
	}
	return rows, nil
}

// Tx runs fn in a transaction on condition of the claim, and commits if fn
// returns nil. The mark is checked first, and nobody else can write to the file
// until the transaction has ended, so keep fn short. fn must not use the
// database by other ways than tx.
//
// An error of fn rolls back and is returned; if it came from a conflict it
// matches fencing.ErrRetry. A transaction that has ended before fn returns is
// rolled back from there, with fencing.ErrRetry.
func (g *Guard) Tx(ctx context.Context, claim fencing.Claim, fn func(tx *sql.Tx) error) error {
	if err := claim.Validate(); err != nil {
		return g.wrap("write", err)
	}
	conn, err := g.db.Conn(ctx)
	if err != nil {
		return g.wrap("write", classify(err, claim, false))
	}
	defer func() { _ = conn.Close() }()
	var gate gate
	if err := gate.install(conn); err != nil {
		return g.wrap("write", err)
	}
	defer gate.remove(conn)
	err = inTransaction(ctx, conn, func(tx *sql.Tx) error {
		if err := g.Check(ctx, tx, claim); err != nil {
			return err
		}
		return bracket(ctx, tx, claim, fn)
	}, gate.commit)
	return g.wrap("write", classify(err, claim, gate.open))
}

// Check refuses unless the mark is the claim, and keeps it so until tx ends: an
// accepted check makes the whole of tx conditional on the claim. It is for
// transactions that Tx cannot make, such as one with marks of several resources.
// Let it be the first statement of tx: one that has read before conflicts with
// any write since, which is fencing.ErrRetry. Such a transaction must stop at the
// first error of any statement: see the package's text. An error of the later
// Commit has no class: pass it to CommitError.
func (g *Guard) Check(ctx context.Context, tx *sql.Tx, claim fencing.Claim) error {
	if err := claim.Validate(); err != nil {
		return g.wrap("check", err)
	}
	err := becomeWriter(ctx, tx)
	var m fencing.Mark
	if err == nil {
		m, err = g.mark(ctx, tx)
	}
	if err != nil {
		return g.wrap("check", classify(err, claim, false))
	}
	return g.wrap("check", fencing.DecideWrite(m, claim))
}

// CommitError gives the error of a Commit its class, for a transaction with
// Check. nil stays nil.
func (g *Guard) CommitError(_ context.Context, claim fencing.Claim, err error) error {
	return g.wrap("commit", classify(err, claim, !errors.Is(err, sql.ErrTxDone)))
}

// becomeWriter makes tx the one writer of the file, as BEGIN IMMEDIATE does,
// whatever the data source name says of how transactions begin. A statement that
// could write takes the place of the writer before it looks at a row.
func becomeWriter(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "UPDATE main.leasehold_mark SET resource = resource WHERE 0")
	return err
}

// bracket runs fn between setting a savepoint and releasing it. The release
// fails if the transaction is not the one of the savepoint any more.
func bracket(ctx context.Context, tx *sql.Tx, claim fencing.Claim, fn func(tx *sql.Tx) error) error {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT leasehold_check"); err != nil {
		return err
	}
	err := fn(tx)
	if err == nil {
		_, err = tx.ExecContext(ctx, "RELEASE leasehold_check")
	}
	if isEnded(err) {
		return &fencing.RetryError{Mine: claim, Err: fmt.Errorf("%w: %w", errEnded, err)}
	}
	return err
}

// gate keeps a connection from committing anything while it is not open.
type gate struct{ open bool }

func (g *gate) install(conn *sql.Conn) error {
	return conn.Raw(func(c any) error {
		hooks, ok := c.(sqlite.HookRegisterer)
		if !ok {
			return errHook
		}
		hooks.RegisterCommitHook(func() int32 {
			if g.open {
				return 0
			}
			return 1
		})
		return nil
	})
}

func (g *gate) remove(conn *sql.Conn) {
	_ = conn.Raw(func(c any) error {
		c.(sqlite.HookRegisterer).RegisterCommitHook(nil)
		return nil
	})
}

func (g *gate) commit(tx *sql.Tx) error {
	g.open = true
	return tx.Commit()
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
