// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold.dev/fencing"
	"leasehold.dev/fencing/postgres"
)

// The pages show parts of these functions.

func fencedInsert(ctx context.Context, db *pgxpool.Pool, entry, amount int) error {
	claim, err := fencing.FromEnv() // FENCING_TOKEN, FENCING_HOLDER, FENCING_ISSUER
	if err != nil {
		return err // no claim: do not start
	}
	guard := postgres.New(db, "ledger")
	if err := guard.Raise(ctx, claim); err != nil { // first raise: from here on no older token can write
		return err
	}
	// Then read the state. Then write, every time under the guard:
	err = guard.Tx(ctx, claim, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO ledger (entry, amount) VALUES ($1, $2)`, entry, amount)
		return err
	})
	if errors.Is(err, fencing.ErrFenced) {
		return err // a newer holder is there: stop for good
	}
	return err
}

func fencedUpdate(ctx context.Context, db *pgxpool.Pool) error {
	claim, err := fencing.FromEnv()
	if err != nil {
		return err
	}
	guard := postgres.New(db, "ledger") // db is a *pgxpool.Pool
	if err := guard.Raise(ctx, claim); err != nil {
		return err
	}
	var balance int64 // read only after the raise has returned
	if err := db.QueryRow(ctx, `SELECT balance FROM account WHERE id = 1`).Scan(&balance); err != nil {
		return err
	}
	rows, err := guard.Exec(ctx, claim, `UPDATE account SET balance = $1 WHERE id = $2`, balance+100, 1)
	if err != nil {
		return err
	}
	fmt.Println(rows)
	return nil
}

func Example() {
	ctx := context.Background()
	db, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	fmt.Println(fencedInsert(ctx, db, 1, 100), fencedUpdate(ctx, db))
}
