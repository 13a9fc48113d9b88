// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold.dev/fencing"
	"leasehold.dev/fencing/postgres"
)

// A holder raises the mark, reads the state, and then writes, each time with
// its claim.
func Example() {
	work := func(ctx context.Context, pool *pgxpool.Pool) error {
		claim, err := fencing.FromEnv()
		if err != nil {
			return err
		}
		guard := postgres.New(pool, "ledger")
		if err := guard.Raise(ctx, claim); err != nil {
			return err
		}
		var balance int64 // read after the raise, never before
		if err := pool.QueryRow(ctx, "SELECT balance FROM account WHERE id = 1").Scan(&balance); err != nil {
			return err
		}
		_, err = guard.Exec(ctx, claim, "UPDATE account SET balance = $1 WHERE id = 1", balance+10)
		return err
	}
	_ = work
}

// A write whose reply was lost is run again with the same nonce, which is the
// primary key of what it inserts: the second run waits for the first, should
// that still be under way, and finds whether it was done. The loop ends with any
// error that asks for something else, such as fencing.ErrFenced.
func ExampleGuard_Tx() {
	post := func(ctx context.Context, guard *postgres.Guard, claim fencing.Claim, amount int64) error {
		nonce := rand.Text()
		once := func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, "INSERT INTO posting (nonce, amount) VALUES ($1, $2) ON CONFLICT DO NOTHING", nonce, amount)
			if err != nil || tag.RowsAffected() == 0 { // an earlier run has done it
				return err
			}
			_, err = tx.Exec(ctx, "UPDATE account SET balance = balance + $1 WHERE id = 1", amount)
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
