// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed schema.sql
var schema string

// Kinds of starts.
const (
	// Work is the command of a job.
	Work = "work"
	// Child is a process that the work has left running.
	Child = "child"
)

// Install makes the tables.
func Install(ctx context.Context, db *pgx.Conn) error {
	if _, err := db.Exec(ctx, schema); err != nil {
		return fmt.Errorf("install the notebook: %w", err)
	}
	return nil
}

// Start is what a process knows about its own start.
type Start struct {
	Job, Kind, Holder, Boot string
	Token                   int64
	PID                     int
	Born                    time.Time // By the process's clock, read only as "so long ago".
}

// Entry writes for one start, over one connection that it never replaces: who
// has lost it has ended, as far as the notebook is concerned.
type Entry struct {
	db *pgx.Conn
	id int64
}

// Begin records a start.
func Begin(ctx context.Context, db *pgx.Conn, s Start) (*Entry, error) {
	e := &Entry{db: db}
	err := db.QueryRow(ctx, `INSERT INTO starts (job, kind, token, holder, boot, pid, started_at)
		VALUES ($1, $2, $3, $4, $5, $6, clock_timestamp() - $7::interval) RETURNING id`,
		s.Job, s.Kind, s.Token, s.Holder, s.Boot, s.PID, time.Since(s.Born)).Scan(&e.id)
	if err != nil {
		return nil, fmt.Errorf("record the start: %w", err)
	}
	return e, nil
}

// Beat records a sign of life.
func (e *Entry) Beat(ctx context.Context) error {
	_, err := e.db.Exec(ctx, `INSERT INTO beats (start) VALUES ($1)`, e.id)
	return err
}

// Number says the how many-th start of work of its job this is, from 1.
func (e *Entry) Number(ctx context.Context) (n int, err error) {
	err = e.db.QueryRow(ctx, `SELECT count(*) FROM starts s JOIN starts me ON s.job = me.job AND s.kind = me.kind AND s.id <= me.id
		WHERE me.id = $1`, e.id).Scan(&n)
	return n, err
}

// Raised records, over another connection, that this start has raised the mark.
func (e *Entry) Raised(ctx context.Context, db *pgx.Conn) error {
	_, err := db.Exec(ctx, `UPDATE starts SET raised_at = clock_timestamp() WHERE id = $1`, e.id)
	return err
}

// Write is the statement of a guarded write and its arguments.
func (e *Entry) Write() (sql string, args []any) {
	return `INSERT INTO writes (start) VALUES ($1)`, []any{e.id}
}

// Refused records, over another connection, that a guarded write was refused.
func (e *Entry) Refused(ctx context.Context, db *pgx.Conn, why error) error {
	_, err := db.Exec(ctx, `INSERT INTO refusals (start, why) VALUES ($1, $2)`, e.id, why.Error())
	return err
}
