// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"

	"leasehold.dev/fencing"
	"leasehold.dev/fencing/sqlite"
)

// A holder raises the mark, reads the state, and then writes, each time with
// its claim.
func Example() {
	work := func(ctx context.Context, db *sql.DB) error {
		claim, err := fencing.FromEnv()
		if err != nil {
			return err
		}
		guard := sqlite.New(db, "ledger")
		if err := guard.Raise(ctx, claim); err != nil {
			return err
		}
		var balance int64 // read after the raise, never before
		if err := db.QueryRowContext(ctx, "SELECT balance FROM account WHERE id = 1").Scan(&balance); err != nil {
			return err
		}
		_, err = guard.Exec(ctx, claim, "UPDATE account SET balance = ? WHERE id = 1", balance+10)
		return err
	}
	_ = work
}

// An operator installs the tables and arms the resource, once.
func ExampleGuard_Arm() {
	arm := func(ctx context.Context, db *sql.DB, issuer string) error {
		if err := sqlite.Install(ctx, db); err != nil {
			return err
		}
		return sqlite.New(db, "ledger").Arm(ctx, issuer)
	}
	_ = arm
}

// A write whose reply was lost is run again with the same nonce, which is the
// primary key of what it inserts: the second run waits for the first, should
// that still be under way, and finds whether it was done.
func ExampleGuard_Tx() {
	post := func(ctx context.Context, guard *sqlite.Guard, claim fencing.Claim, amount int64) error {
		nonce := rand.Text()
		once := func(tx *sql.Tx) error {
			result, err := tx.ExecContext(ctx, "INSERT OR IGNORE INTO posting (nonce, amount) VALUES (?, ?)", nonce, amount)
			if err != nil {
				return err
			}
			if rows, err := result.RowsAffected(); err != nil || rows == 0 { // an earlier run has done it
				return err
			}
			_, err = tx.ExecContext(ctx, "UPDATE account SET balance = balance + ? WHERE id = 1", amount)
			return err
		}
		for {
			err := guard.Tx(ctx, claim, once)
			again := errors.Is(err, fencing.ErrRetry) || errors.Is(err, fencing.ErrUnknown)
			if !again || ctx.Err() != nil {
				return err
			}
		}
	}
	_ = post
}
