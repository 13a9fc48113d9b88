// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// The ledger is an example of a single writer: it reads the newest entry of a
// table, works out the next one, and writes it. Two writers at once would
// overwrite each other's entries. Under a fencing mark the database refuses
// the one whose term is over.
//
// DATABASE_URL names the database. FENCING_TOKEN and its companions are set by
// Leasehold. LEDGER_FENCE=off leaves the fence out, to show what happens then.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold.dev/fencing"
	"leasehold.dev/fencing/postgres"
)

// thinking is how long the writer works out an entry between the read that it
// is based on and the write: a report, a remote call, a large computation.
const thinking = time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx)
	stopped := ctx.Err() != nil
	stop()
	switch {
	case err == nil, stopped:
	case errors.Is(err, fencing.ErrFenced):
		fmt.Println("REFUSED by the database:", err)
		os.Exit(1)
	default:
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	claim, err := fencing.FromEnv()
	if err != nil {
		return err
	}
	db, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	defer db.Close()
	w := writer{db: db, claim: claim, guard: postgres.New(db, "ledger"), fenced: os.Getenv("LEDGER_FENCE") != "off"}
	if w.fenced {
		// First raise, then read: what was read before could be overwritten still.
		if err := w.guard.Raise(ctx, claim); err != nil {
			return err
		}
	}
	fmt.Printf("started with token %d\n", claim.Token)
	for {
		if err := w.writeNext(ctx); err != nil {
			return err
		}
	}
}

type writer struct {
	db     *pgxpool.Pool
	claim  fencing.Claim
	guard  *postgres.Guard
	fenced bool
}

// writeNext reads the newest entry, thinks, and writes the next.
func (w writer) writeNext(ctx context.Context) error {
	var entry int
	if err := w.db.QueryRow(ctx, `SELECT coalesce(max(entry), 0) + 1 FROM ledger`).Scan(&entry); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	fmt.Printf("about to write entry %d with token %d\n", entry, w.claim.Token)
	// For onlookers only.
	if _, err := w.db.Exec(ctx, `SELECT pg_notify('ledger', $1)`, fmt.Sprintf("%d %d", w.claim.Token, entry)); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(thinking):
	}
	if err := w.write(ctx, entry); err != nil {
		return err
	}
	fmt.Printf("wrote entry %d with token %d\n", entry, w.claim.Token)
	return nil
}

const upsert = `INSERT INTO ledger (entry, token, writer) VALUES ($1, $2, $3)
	ON CONFLICT (entry) DO UPDATE SET token = $2, writer = $3, written_at = now()`

func (w writer) write(ctx context.Context, entry int) error {
	arguments := []any{entry, w.claim.Token, w.claim.Holder}
	if !w.fenced {
		_, err := w.db.Exec(ctx, upsert, arguments...)
		return err
	}
	return w.guard.Tx(ctx, w.claim, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, upsert, arguments...)
		return err
	})
}
