// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"leasehold.dev/fencing"
	"leasehold.dev/fencing/fencetest"
)

func TestConformance(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			dir := t.TempDir()
			fencetest.Run(t, fencetest.Suite{
				Adapter: "sqlite/" + mode,
				Open: func(t *testing.T, r fencetest.Resource) fencetest.Target {
					return newTarget(t, filepath.Join(dir, r.Name), r, mode)
				},
				Without: map[string]string{
					fencetest.CaseRowLock:   "one writer of a file at a time: a write waits before its check, never after it",
					fencetest.CaseLostWrite: "a library in the process: no connection that could break",
					fencetest.CaseLostRaise: "a library in the process: no connection that could break",
				},
				Naive: []fencetest.Naive{{
					Name: "checks, then writes",
					Open: func(t *testing.T, r fencetest.Resource) fencetest.Target {
						return naive{newTarget(t, filepath.Join(dir, r.Name), r, mode)}
					},
					CaughtBy: []string{fencetest.CaseFrozen, fencetest.CaseContended},
				}},
			})
		})
	}
}

type target struct {
	*Guard
	pause func()
}

func newTarget(t *testing.T, path string, r fencetest.Resource, mode string) target {
	t.Helper()
	db := openDB(t, path, "busy_timeout(10)", "journal_mode("+mode+")")
	for {
		err := Install(t.Context(), db)
		if err == nil {
			_, err = db.Exec("CREATE TABLE IF NOT EXISTS journal (seq INTEGER PRIMARY KEY, token INTEGER, holder TEXT, nonce TEXT) STRICT")
		}
		if code(err) != codeBusy {
			must(t, err)
			return target{New(db, r.Name), r.Pause}
		}
	}
}

const appendEntry = "INSERT INTO journal (token, holder, nonce) VALUES (?, ?, ?)"

func (tg target) Append(ctx context.Context, c fencing.Claim, nonce string) error {
	return tg.Tx(ctx, c, func(tx *sql.Tx) error {
		tg.pause()
		_, err := tx.ExecContext(ctx, appendEntry, c.Token, c.Holder, nonce)
		tg.pause()
		return err
	})
}

// Journal waits for a writer that is about to commit, as a reader without WAL
// has to.
func (tg target) Journal(ctx context.Context) ([]fencetest.Entry, error) {
	for {
		journal, err := tg.read(ctx)
		if code(err) != codeBusy {
			return journal, err
		}
	}
}

func (tg target) read(ctx context.Context) ([]fencetest.Entry, error) {
	rows, err := tg.db.QueryContext(ctx, "SELECT token, holder, nonce FROM journal ORDER BY seq")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var journal []fencetest.Entry
	for rows.Next() {
		var e fencetest.Entry
		if err := rows.Scan(&e.Token, &e.Holder, &e.Nonce); err != nil {
			return nil, err
		}
		journal = append(journal, e)
	}
	return journal, rows.Err()
}

// Begin implements fencetest.Transactional.
func (tg target) Begin(ctx context.Context, c fencing.Claim, nonce string) (fencetest.Transaction, error) {
	tx, err := tg.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	err = tg.Check(ctx, tx, c)
	if err == nil {
		_, err = tx.ExecContext(ctx, appendEntry, c.Token, c.Holder, nonce)
	}
	if err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return open{tg, tx, c}, nil
}

type open struct {
	tg target
	tx *sql.Tx
	c  fencing.Claim
}

func (o open) Commit(ctx context.Context) error { return o.tg.CommitError(ctx, o.c, o.tx.Commit()) }

// DropMark implements fencetest.MarkDropper.
func (tg target) DropMark(ctx context.Context) error { return setMark(ctx, tg.Guard, fencing.Mark{}) }

// Snapshot implements fencetest.Restorer.
func (tg target) Snapshot(ctx context.Context) (func(context.Context) error, error) {
	m, err := tg.Read(ctx)
	if err != nil {
		return nil, err
	}
	journal, err := tg.Journal(ctx)
	return func(ctx context.Context) error {
		_, err := tg.db.ExecContext(ctx, "DELETE FROM journal WHERE seq > ?", len(journal))
		return errors.Join(err, setMark(ctx, tg.Guard, m))
	}, err
}

// Remove implements fencetest.Remover.
func (tg target) Remove(ctx context.Context, c fencing.Claim) error {
	_, err := tg.Exec(ctx, c, "DELETE FROM journal")
	return err
}

// naive checks the mark by itself, and then writes.
type naive struct{ target }

func (n naive) Append(ctx context.Context, c fencing.Claim, nonce string) error {
	m, err := n.mark(ctx, n.db)
	if err == nil {
		err = fencing.DecideWrite(m, c)
	}
	if err != nil {
		return classify(err, c, false)
	}
	n.pause()
	_, err = n.db.ExecContext(ctx, appendEntry, c.Token, c.Holder, nonce)
	return classify(err, c, false)
}
