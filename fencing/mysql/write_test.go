// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"strings"
	"testing"

	"leasehold.dev/fencing"
)

func TestExec(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := t.Context()
	wantClass(t, writers["Exec"](ctx, e.guard, claim(33), "x"), fencing.ErrNotRaised)
	must(t, e.guard.Raise(ctx, claim(33)))
	tests := []struct {
		name  string
		query string
		args  []any
		rows  int64
		err   string
	}{
		{"update", setValue, []any{"a"}, 1, ""},
		{"the same again", setValue, []any{"a"}, 1, ""},
		{"without arguments", "UPDATE register SET value = 'b'", nil, 1, ""},
		{"no row matches", "DELETE FROM register WHERE id = 9", nil, 0, ""},
		{"insert", "INSERT INTO register VALUES (?, ?), (?, ?)", []any{2, "x", 3, "y"}, 2, ""},
		{"second statement", "UPDATE register SET value = 'c'; COMMIT; DELETE FROM register", nil, 0, "1064"},
		{"DDL", "DROP TABLE register", nil, 0, "use Tx"},
		{"commit", "COMMIT", nil, 0, "use Tx"},
		{"comment first", "/* x */ DROP TABLE register", nil, 0, "use Tx"},
		{"error of the statement", "UPDATE register SET id = NULL WHERE id = 1", nil, 0, "1048"},
		{"table that is not there", "DELETE FROM nothing", nil, 0, "1146"},
	}
	config := server.Config(e.name)
	config.ClientFoundRows, config.MultiStatements = true, true
	multi := New(openConfig(t, config), "orders")
	for _, tt := range tests {
		for name, g := range map[string]*Guard{"one": e.guard, "multiStatements": multi} {
			if strings.HasPrefix(tt.query, "INSERT") && g == multi {
				continue
			}
			rows, err := g.Exec(ctx, claim(33), tt.query, tt.args...)
			switch {
			case tt.err == "" && (err != nil || rows != tt.rows):
				t.Errorf("%s (%s): %d rows, %v; want %d", tt.name, name, rows, err, tt.rows)
			case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err) || classified(err)):
				t.Errorf("%s (%s): error %v, want %q without a class", tt.name, name, err, tt.err)
			}
		}
	}
	e.wantValue(t, "b")
	must(t, e.guard.Raise(ctx, claim(34)))
	_, err := e.guard.Exec(ctx, claim(33), "INSERT INTO register VALUES (4, 'stale')")
	wantClass(t, err, fencing.ErrFenced)
}

// TestFoundRows: without clientFoundRows a write of values that are there
// already looks like a missing row, so nothing is written or raised.
func TestFoundRows(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	must(t, e.guard.Raise(t.Context(), claim(33)))
	config := server.Config(e.name) // without the flag
	db := openConfig(t, config)
	g := New(db, "orders")
	for _, write := range writers {
		if err := write(t.Context(), g, claim(33), "x"); !errors.Is(err, errFoundRows) {
			t.Errorf("write: %v, want it refused for the flag", err)
		}
	}
	if err := g.Raise(t.Context(), claim(34)); !errors.Is(err, errFoundRows) {
		t.Errorf("raise: %v, want it refused for the flag", err)
	}
	e.wantMark(t, fencing.Mark(claim(33)))

	// The hole that the flag closes.
	result, err := db.ExecContext(t.Context(), "UPDATE register SET value = 'initial' WHERE id = 1")
	must(t, err)
	if rows, err := result.RowsAffected(); rows != 0 || err != nil {
		t.Errorf("%d rows, %v: the flag makes no difference, so this test shows nothing", rows, err)
	}
}

// deadlock makes a statement of tx the victim of a deadlock, which rolls the
// whole transaction back.
func deadlock(t *testing.T, e *env, tx *sql.Tx) {
	t.Helper()
	other := e.begin(t)
	for _, s := range []string{ // what has written more is not the victim
		"INSERT INTO register VALUES (21, ''), (22, ''), (23, ''), (24, ''), (25, ''), (26, '')",
		"UPDATE register SET value = 'other' WHERE id = 11",
	} {
		_, err := other.Exec(s)
		must(t, err)
	}
	_, err := tx.Exec("UPDATE register SET value = 'mine' WHERE id = 12")
	must(t, err)
	blocked := start(func() error { _, err := other.Exec("UPDATE register SET value = 'other' WHERE id = 12"); return err })
	e.waitBlocked(t, 1, blocked.done)
	if _, err := tx.Exec("UPDATE register SET value = 'mine' WHERE id = 11"); !isNumber(err, 1213) {
		t.Fatalf("error %v, want a deadlock", err)
	}
	must(t, blocked.wait(t))
	must(t, other.Rollback())
}

// TestOverlookedDeadlock lets a function overlook that a deadlock has ended its
// transaction, and go on after another holder has raised.
func TestOverlookedDeadlock(t *testing.T) {
	t.Parallel()
	setUp := func(t *testing.T) *env {
		e := newEnv(t)
		_, err := e.db.Exec("INSERT INTO register VALUES (11, ''), (12, '')")
		must(t, err)
		must(t, e.guard.Raise(t.Context(), claim(33)))
		return e
	}
	work := func(t *testing.T, e *env) func(*sql.Tx) error {
		return func(tx *sql.Tx) error {
			deadlock(t, e, tx)
			must(t, e.guard.Raise(t.Context(), claim(34))) // the lock on the mark is gone
			_, err := tx.Exec(setValue, "stale")
			return err
		}
	}
	t.Run("Tx", func(t *testing.T) {
		t.Parallel()
		e := setUp(t)
		err := e.guard.Tx(t.Context(), claim(33), work(t, e))
		if !errors.Is(err, fencing.ErrRetry) || !errors.Is(err, errEnded) {
			t.Errorf("error %v, want ErrRetry for a transaction that ended", err)
		}
		e.wantValue(t, "initial")
		must(t, writers["Tx"](t.Context(), e.guard, claim(34), "34")) // the pool's sessions are in order
		e.wantValue(t, "34")
	})
	t.Run("naive: a check at the start of a common transaction", func(t *testing.T) {
		t.Parallel()
		e := setUp(t)
		tx := e.begin(t)
		must(t, e.guard.Check(t.Context(), tx, claim(33)))
		must(t, work(t, e)(tx))
		must(t, tx.Rollback()) // which the statement after the deadlock does not care about
		e.wantValue(t, "stale")
	})
}

// TestImplicitCommit: a statement that commits in the middle ends the guarded
// transaction, and what follows it is rolled back.
func TestImplicitCommit(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := t.Context()
	must(t, e.guard.Raise(ctx, claim(33)))
	for _, s := range []string{"CREATE TABLE other (id int)", "COMMIT", "ROLLBACK"} {
		err := e.guard.Tx(ctx, claim(33), func(tx *sql.Tx) error {
			if _, err := tx.Exec(s); err != nil {
				return err
			}
			_, err := tx.Exec(setValue, "stale")
			return err
		})
		if !errors.Is(err, errEnded) {
			t.Errorf("%s: error %v, want that of a transaction that ended", s, err)
		}
		e.wantValue(t, "initial")
	}
}

// TestDeletedRowStaysDeleted: the new holder deletes a row, and a stale upsert
// must not bring it back. A condition on the row's own token cannot see it.
func TestDeletedRowStaysDeleted(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := t.Context()
	must(t, e.guard.Raise(ctx, claim(33)))
	must(t, e.guard.Raise(ctx, claim(34)))
	_, err := e.guard.Exec(ctx, claim(34), "DELETE FROM register WHERE id = 1")
	must(t, err)
	_, err = e.guard.Exec(ctx, claim(33), "INSERT INTO register VALUES (1, 'stale') ON DUPLICATE KEY UPDATE value = 'stale'")
	wantClass(t, err, fencing.ErrFenced)
	var rows int
	must(t, e.db.QueryRow("SELECT count(*) FROM register").Scan(&rows))
	if rows != 0 {
		t.Errorf("%d rows, want none", rows)
	}

	_, err = e.db.Exec("CREATE TABLE naive (id int PRIMARY KEY, token bigint NOT NULL)")
	must(t, err)
	_, err = e.db.Exec("INSERT INTO naive VALUES (1, 33) ON DUPLICATE KEY UPDATE token = IF(token <= 33, 33, token)")
	must(t, err)
	must(t, e.db.QueryRow("SELECT count(*) FROM naive").Scan(&rows))
	if rows != 1 {
		t.Error("the naive upsert was refused, so this test shows nothing")
	}
}

func TestTxReturnsWhatItsFunctionSays(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := t.Context()
	must(t, e.guard.Raise(ctx, claim(33)))
	fail := func(err error) func(*sql.Tx) error {
		return func(tx *sql.Tx) error {
			if _, execErr := tx.Exec(setValue, "x"); execErr != nil {
				return execErr
			}
			return err
		}
	}
	for _, want := range []error{io.ErrUnexpectedEOF, sql.ErrNoRows, context.DeadlineExceeded} {
		if err := e.guard.Tx(ctx, claim(33), fail(want)); !errors.Is(err, want) || classified(err) {
			t.Errorf("error %v, want %v without a class", err, want)
		}
		e.wantValue(t, "initial")
	}
	func() {
		defer func() { _ = recover() }()
		_ = e.guard.Tx(ctx, claim(33), func(*sql.Tx) error { panic("of the function") })
	}()
	must(t, e.guard.Raise(ctx, claim(34))) // nothing is left that holds the mark
	if n := e.db.Stats().InUse; n != 0 {
		t.Errorf("%d connections were not given back", n)
	}
}

// TestCheckOfTwoResources makes one transaction conditional on two marks.
func TestCheckOfTwoResources(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := t.Context()
	other := New(e.db, "invoices")
	must(t, other.Arm(ctx, issuer))
	must(t, e.guard.Raise(ctx, claim(33)))
	must(t, other.Raise(ctx, claim(7)))
	both := func() error {
		return e.guard.Tx(ctx, claim(33), func(tx *sql.Tx) error {
			if err := other.Check(ctx, tx, claim(7)); err != nil {
				return err
			}
			_, err := tx.Exec(setValue, "both")
			return err
		})
	}
	must(t, both())
	must(t, other.Raise(ctx, claim(8)))
	if err := both(); !errors.Is(err, fencing.ErrFenced) || !strings.Contains(err.Error(), `"invoices"`) {
		t.Errorf("error %v, want the other resource's refusal", err)
	}
}
