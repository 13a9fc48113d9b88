// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"leasehold.dev/fencing"
)

const (
	readCommitted  = "'READ-COMMITTED'"
	repeatableRead = "'REPEATABLE-READ'"
	serializable   = "'SERIALIZABLE'"
)

// variant is one way to make a write of the register depend on a claim, and the
// isolation levels at which a stale write gets through.
type variant struct {
	name  string
	holes []string
	write func(ctx context.Context, g *Guard, c fencing.Claim, value string) error
}

// variants are the two ways of this package, and those that look alike. Those
// with holes are the negative controls: a scenario that does not catch them
// would not notice if ours were no better.
var variants = []variant{
	{"Exec", nil, writers["Exec"]},
	{"Tx", nil, writers["Tx"]},
	{"UPDATE that joins the mark", nil, oneStatement(`UPDATE register r JOIN leasehold_mark m ON m.resource = 'orders'
		SET r.value = ? WHERE r.id = 1 AND m.token = ? AND m.holder = ?`)},
	{"naive: SELECT, then write", []string{readCommitted, repeatableRead}, selectThenWrite},
	{"naive: sub-select of the token", []string{readCommitted}, oneStatement(`UPDATE register SET value = ?
		WHERE id = 1 AND (SELECT token FROM leasehold_mark WHERE resource = 'orders') <= ? AND ? <> ''`)},
}

// selectThenWrite checks in the transaction of the write, without a lock.
func selectThenWrite(ctx context.Context, g *Guard, c fencing.Claim, value string) error {
	return inTransaction(ctx, g.db, func(tx *sql.Tx) error {
		m, err := g.mark(ctx, tx, "")
		if err != nil {
			return err
		}
		if err := fencing.DecideWrite(m, c); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, setValue, value)
		return err
	}, (*sql.Tx).Commit)
}

// oneStatement takes no affected row for a refusal.
func oneStatement(query string) func(context.Context, *Guard, fencing.Claim, string) error {
	return func(ctx context.Context, g *Guard, c fencing.Claim, value string) error {
		result, err := g.db.ExecContext(ctx, query, value, c.Token, c.Holder)
		if err != nil {
			return err
		}
		if rows, err := result.RowsAffected(); err != nil || rows == 0 {
			return errors.Join(err, &fencing.FencedError{Mine: c})
		}
		return nil
	}
}

// scenarios runs f for each variant at each isolation level.
func scenarios(t *testing.T, f func(t *testing.T, e *env, v variant, hole bool)) {
	t.Helper()
	for _, v := range variants {
		for _, level := range []string{readCommitted, repeatableRead, serializable} {
			t.Run(v.name+" at "+level, func(t *testing.T) {
				t.Parallel()
				hole := false
				for _, l := range v.holes {
					hole = hole || l == level
				}
				f(t, newEnv(t, "tx_isolation", level), v, hole)
			})
		}
	}
}

// TestFrozenBetweenCheckAndWrite stops the old holder after its check, where its
// write waits for the lock of a row; meanwhile the new one raises, and reads once
// the raise has returned. A write that is accepted and that the new holder did
// not see is a stale one.
func TestFrozenBetweenCheckAndWrite(t *testing.T) {
	t.Parallel()
	scenarios(t, func(t *testing.T, e *env, v variant, hole bool) {
		must(t, e.guard.Raise(t.Context(), claim(33)))
		lock := e.begin(t)
		_, err := lock.Exec("UPDATE register SET value = 'before' WHERE id = 1")
		must(t, err)

		stale := start(func() error { return v.write(t.Context(), e.guard, claim(33), "33") })
		e.waitBlocked(t, 1, nil)
		var seen string
		raise := start(func() error {
			if err := e.guard.Raise(t.Context(), claim(34)); err != nil {
				return err
			}
			return e.db.QueryRow("SELECT value FROM register WHERE id = 1").Scan(&seen)
		})
		e.waitBlocked(t, 2, raise.done)
		must(t, lock.Commit())
		staleErr := stale.wait(t)
		must(t, raise.wait(t))
		missed := staleErr == nil && seen != "33"
		if missed != hole {
			t.Errorf("the stale write ended with %v, and the new holder read %q: hole = %v, want %v", staleErr, seen, missed, hole)
		}
		wantClass(t, e.guard.Raise(t.Context(), claim(33)), fencing.ErrFenced)
	})
}

// raised moves the mark in a transaction that is left open.
func (e *env) raised(t *testing.T, token int64) *sql.Tx {
	t.Helper()
	tx := e.begin(t)
	_, err := tx.Exec("UPDATE leasehold_mark SET token = ?, holder = ? WHERE resource = 'orders'", token, claim(token).Holder)
	must(t, err)
	return tx
}

// TestOvertakenWhileItWaits lets the new holder raise and write in one
// transaction that is not committed when the old one's write arrives.
func TestOvertakenWhileItWaits(t *testing.T) {
	t.Parallel()
	scenarios(t, func(t *testing.T, e *env, v variant, hole bool) {
		must(t, e.guard.Raise(t.Context(), claim(33)))
		newer := e.raised(t, 34)
		_, err := newer.Exec(setValue, "34")
		must(t, err)

		stale := start(func() error { return v.write(t.Context(), e.guard, claim(33), "33") })
		if !e.waitBlocked(t, 1, stale.done) {
			t.Fatalf("the stale write did not wait: %v", stale.err)
		}
		must(t, newer.Commit())
		if err = stale.wait(t); hole {
			wantClass(t, err, nil)
			e.wantValue(t, "33") // the new holder's write is gone
			return
		}
		wantClass(t, err, fencing.ErrFenced)
		e.wantValue(t, "34")
	})
}

// TestSnapshotIsolation: a server that refuses to read past a snapshot makes an
// overtaken write fail or be refused, as what it is.
func TestSnapshotIsolation(t *testing.T) {
	t.Parallel()
	for name, write := range writers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, "innodb_snapshot_isolation", "1")
			must(t, e.guard.Raise(t.Context(), claim(33)))
			newer := e.raised(t, 34)
			stale := start(func() error { return write(t.Context(), e.guard, claim(33), "33") })
			if !e.waitBlocked(t, 1, stale.done) {
				t.Fatalf("the stale write did not wait: %v", stale.err)
			}
			must(t, newer.Commit())
			wantClass(t, stale.wait(t), fencing.ErrFenced)
			e.wantValue(t, "initial")

			// With a snapshot from before the raise, the check itself conflicts.
			old := e.begin(t)
			var seen string
			must(t, old.QueryRow("SELECT value FROM register").Scan(&seen))
			must(t, e.guard.Raise(t.Context(), claim(35)))
			wantClass(t, e.guard.Check(t.Context(), old, claim(35)), fencing.ErrRetry)
		})
	}
}

// TestRaiseWaitsForFrozenTransaction: a holder that freezes inside its
// transaction keeps the raise waiting, for as long as the raiser's session has
// patience or the holder's may idle.
func TestRaiseWaitsForFrozenTransaction(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := t.Context()
	must(t, e.guard.Raise(ctx, claim(33)))
	frozen := e.begin(t)
	_, err := frozen.Exec("SET idle_transaction_timeout = 2")
	must(t, err)
	must(t, e.guard.Check(ctx, frozen, claim(33)))
	_, err = frozen.Exec(setValue, "33")
	must(t, err)

	impatient := New(e.open(t, "innodb_lock_wait_timeout", "0"), "orders")
	wantClass(t, impatient.Raise(ctx, claim(34)), fencing.ErrRetry)

	raise := start(func() error { return e.guard.Raise(ctx, claim(34)) })
	if !e.waitBlocked(t, 1, raise.done) {
		t.Fatalf("the raise did not wait: %v", raise.err)
	}
	must(t, raise.wait(t)) // the frozen session has been ended
	if err := e.guard.CommitError(ctx, claim(33), frozen.Commit()); err == nil {
		t.Error("the frozen transaction was committed")
	}
	e.wantValue(t, "initial")
	wantClass(t, writers["Tx"](ctx, e.guard, claim(33), "33"), fencing.ErrFenced)
}

// TestRaiseIsNotStarved: while a raise waits for one transaction of the old
// holder, the next one waits behind it.
func TestRaiseIsNotStarved(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := t.Context()
	must(t, e.guard.Raise(ctx, claim(33)))
	first, second := e.begin(t), e.begin(t)
	must(t, e.guard.Check(ctx, first, claim(33)))
	raise := start(func() error { return e.guard.Raise(ctx, claim(34)) })
	e.waitBlocked(t, 1, raise.done)
	next := start(func() error { return e.guard.Check(ctx, second, claim(33)) })
	if !e.waitBlocked(t, 2, next.done) {
		t.Errorf("the second transaction did not wait behind the raise: %v", next.err)
	}
	must(t, first.Commit())
	must(t, raise.wait(t))
	wantClass(t, next.wait(t), fencing.ErrFenced)
}
