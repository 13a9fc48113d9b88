// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"testing"

	"leasehold.dev/fencing"
	"leasehold.dev/fencing/fencetest"
)

func TestConformance(t *testing.T) {
	for name, level := range map[string]string{"read committed": readCommitted, "repeatable read": repeatableRead} {
		open := func(t *testing.T, r fencetest.Resource) fencetest.Target { return newTarget(t, r, level) }
		naive := func(t *testing.T, r fencetest.Resource) fencetest.Target {
			return naive{newTarget(t, r, level), r.Pause}
		}
		t.Run(name, func(t *testing.T) {
			fencetest.Run(t, fencetest.Suite{
				Adapter: "mysql/" + strings.ReplaceAll(name, " ", "-"),
				Store:   server.Socket(),
				Open:    open,
				Naive: []fencetest.Naive{{Name: "SELECT, then write", Open: naive,
					CaughtBy: []string{fencetest.CaseFrozen, fencetest.CaseRowLock, fencetest.CaseContended}}},
			})
		})
	}
}

// target is a journal in one row, so that the row's lock puts the entries in
// the order of their commits. Each resource has a database.
type target struct {
	*Guard
	db *sql.DB
	e  *env
}

func newTarget(t *testing.T, r fencetest.Resource, level string) target {
	t.Helper()
	must(t, execOn(t.Context(), "CREATE DATABASE IF NOT EXISTS "+r.Name))
	config := server.Config(r.Name)
	config.ClientFoundRows, config.Params = true, map[string]string{"tx_isolation": level}
	if !strings.HasPrefix(r.Addr, "/") {
		config.Net = "tcp"
	}
	config.Addr = r.Addr
	db := openConfig(t, config)
	direct := server.Config(r.Name)
	e := &env{name: r.Name, db: openConfig(t, direct)}
	must(t, Install(t.Context(), e.db))
	_, err := e.db.Exec("CREATE TABLE IF NOT EXISTS journal (id int PRIMARY KEY, value mediumtext NOT NULL)")
	must(t, err)
	return target{New(db, r.Name), db, e}
}

// appendEntry creates the row if it is missing.
const appendEntry = "INSERT INTO journal VALUES (1, ?) ON DUPLICATE KEY UPDATE value = concat(value, ?)"

// Append takes turns with the two shapes of a write.
func (tg target) Append(ctx context.Context, c fencing.Claim, nonce string) error {
	h := fnv.New32()
	_, _ = h.Write([]byte(nonce)) // never fails
	line := entry(c, nonce)
	if h.Sum32()%2 == 0 {
		_, err := tg.Exec(ctx, c, appendEntry, line, line)
		return err
	}
	return tg.Tx(ctx, c, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, appendEntry, line, line)
		return err
	})
}

func entry(c fencing.Claim, nonce string) string {
	return fmt.Sprintf("%d %s %s\n", c.Token, c.Holder, nonce)
}

func (tg target) Journal(ctx context.Context) ([]fencetest.Entry, error) {
	var text string
	if err := tg.e.db.QueryRowContext(ctx, "SELECT coalesce(max(value), '') FROM journal").Scan(&text); err != nil {
		return nil, err
	}
	var journal []fencetest.Entry
	for line := range strings.Lines(text) {
		parts := strings.Fields(line)
		token, err := strconv.ParseInt(parts[0], 10, 64)
		if err != nil {
			return nil, err
		}
		journal = append(journal, fencetest.Entry{Token: token, Holder: parts[1], Nonce: parts[2]})
	}
	return journal, nil
}

// Begin implements fencetest.Transactional.
func (tg target) Begin(ctx context.Context, c fencing.Claim, nonce string) (fencetest.Transaction, error) {
	tx, err := tg.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	err = tg.Check(ctx, tx, c)
	if err == nil {
		_, err = tx.ExecContext(ctx, appendEntry, entry(c, nonce), entry(c, nonce))
	}
	if err != nil {
		_ = tx.Rollback()
		return nil, err
	}
	return open{tg, tx, c}, nil
}

type open struct {
	tg target
	tx *sql.Tx
	c  fencing.Claim
}

func (o open) Commit(ctx context.Context) error { return o.tg.CommitError(ctx, o.c, o.tx.Commit()) }

// Waiting implements fencetest.Waiter.
func (tg target) Waiting(ctx context.Context) (int, error) { return waits.now(ctx, tg.e) }

// Lock implements fencetest.Locker.
func (tg target) Lock(ctx context.Context) (func(context.Context) error, error) {
	tx, err := tg.e.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	_, err = tx.ExecContext(ctx, appendEntry, "", "")
	return func(context.Context) error { return tx.Commit() }, err
}

// DropMark implements fencetest.MarkDropper.
func (tg target) DropMark(ctx context.Context) error {
	_, err := tg.e.db.ExecContext(ctx, "DELETE FROM leasehold_mark WHERE resource = ?", tg.resource)
	return err
}

// Snapshot implements fencetest.Restorer.
func (tg target) Snapshot(ctx context.Context) (func(context.Context) error, error) {
	m, err := tg.Read(ctx)
	if err != nil {
		return nil, err
	}
	var text string
	if err := tg.e.db.QueryRowContext(ctx, "SELECT value FROM journal").Scan(&text); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		return inTransaction(ctx, tg.e.db, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, "UPDATE journal SET value = ?", text); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "UPDATE leasehold_mark SET token = ?, holder = ? WHERE resource = ?", m.Token, m.Holder, tg.resource)
			return err
		}, (*sql.Tx).Commit)
	}, nil
}

// Remove implements fencetest.Remover.
func (tg target) Remove(ctx context.Context, c fencing.Claim) error {
	_, err := tg.Exec(ctx, c, "DELETE FROM journal")
	return err
}

// naive checks the mark in the transaction of the write, without a lock.
type naive struct {
	target
	pause func()
}

func (n naive) Append(ctx context.Context, c fencing.Claim, nonce string) error {
	return inTransaction(ctx, n.db, func(tx *sql.Tx) error {
		m, err := n.mark(ctx, tx, "")
		if err != nil {
			return classify(ctx, err, c, false)
		}
		if err := fencing.DecideWrite(m, c); err != nil {
			return err
		}
		n.pause()
		_, err = tx.ExecContext(ctx, appendEntry, entry(c, nonce), entry(c, nonce))
		return classify(ctx, err, c, false)
	}, func(tx *sql.Tx) error { return classify(ctx, tx.Commit(), c, true) })
}
