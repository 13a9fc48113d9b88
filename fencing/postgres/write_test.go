// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold.dev/fencing"
)

// TestExecShapes runs statements of many shapes with a good claim and with a
// stale one, which must leave no trace.
func TestExecShapes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		sql  string
		args []any
		rows int64
	}{
		{"update", "UPDATE register SET value = $1 WHERE id = $2", []any{"x", 1}, 1},
		{"update of a row that is not there", "UPDATE register SET value = $1 WHERE id = $2", []any{"x", 9}, 0},
		{"delete", "DELETE FROM register WHERE id = 1", nil, 1},
		{"insert", "INSERT INTO register VALUES (2, $1)", []any{"x"}, 1},
		{"insert of many", "INSERT INTO register SELECT n, 'x' FROM generate_series(2, 4) n", nil, 3},
		{"upsert", "INSERT INTO register VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET value = excluded.value", []any{"x"}, 1},
		{"insert that meets a row", "INSERT INTO register VALUES (1, 'x') ON CONFLICT DO NOTHING", nil, 0},
		{"own WITH", "WITH n AS (SELECT 2 AS id) INSERT INTO register SELECT id, 'x' FROM n", nil, 1},
		{"named arguments", "UPDATE register SET value = @v WHERE id = @id", []any{pgx.NamedArgs{"v": "x", "id": 1}}, 1},
		{"strictly named", "UPDATE register SET value = @v", []any{pgx.StrictNamedArgs{"v": "x"}}, 1},
		{"semicolon at the end", "DELETE FROM register ; \n", nil, 1},
		{"comment at the end", "DELETE FROM register -- all of it", nil, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			must(t, e.guard.Raise(t.Context(), claim(33)))
			must(t, e.guard.Raise(t.Context(), claim(34)))
			rows, err := e.guard.Exec(t.Context(), claim(33), tt.sql, tt.args...)
			if rows != 0 || !errors.Is(err, fencing.ErrFenced) {
				t.Errorf("stale: %d rows, error %v; want ErrFenced", rows, err)
			}
			if got := e.register(t); got != "1=initial" {
				t.Errorf("after the stale write the register is %q", got)
			}
			rows, err = e.guard.Exec(t.Context(), claim(34), tt.sql, tt.args...)
			if rows != tt.rows || err != nil {
				t.Errorf("%d rows, error %v; want %d rows", rows, err, tt.rows)
			}
		})
	}
}

// register is all rows, as text.
func (e *env) register(t *testing.T) string {
	t.Helper()
	var all string
	must(t, e.pool.QueryRow(t.Context(),
		"SELECT coalesce(string_agg(id || '=' || value, ',' ORDER BY id), '') FROM register").Scan(&all))
	return all
}

// TestExecRefuses what it could not guard; nothing is done.
func TestExecRefuses(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	must(t, e.guard.Raise(t.Context(), claim(33)))
	// A pool for transaction poolers, which uses the simple protocol: it would
	// run a second statement.
	config := e.pool.Config()
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must(t, err)
	t.Cleanup(pool.Close)
	simple := New(pool, "orders")
	tests := []struct {
		name string
		sql  string
		args []any
		want string
	}{
		{"placeholder that would read the guard's own argument", "UPDATE register SET value = $1", nil, "the statement has $1 but only 0"},
		{"one placeholder too many", "UPDATE register SET value = $2 WHERE value = $1", []any{"x"}, "the statement has $2 but only 1"},
		{"placeholder out of range", "DELETE FROM register WHERE value = $99999999999999999999", nil, "the statement has $9999"},
		{"missing name", "UPDATE register SET value = @v", []any{pgx.StrictNamedArgs{}}, "v"},
		{"options of pgx", "DELETE FROM register", []any{pgx.QueryExecModeExec}, "use Tx"},
		{"text formats", "DELETE FROM register", []any{pgx.QueryResultFormats{0}}, "use Tx"},
		{"RETURNING", "DELETE FROM register RETURNING id", nil, "without RETURNING"},
		{"second statement", "DELETE FROM register; DELETE FROM register", nil, "takes one INSERT, UPDATE or DELETE"},
		{"SELECT", "SELECT 1", nil, "takes one INSERT, UPDATE or DELETE"},
		{"DDL", "DROP TABLE register", nil, "takes one INSERT, UPDATE or DELETE"},
		{"nothing", "", nil, "takes one INSERT, UPDATE or DELETE"},
		{"argument that cannot be encoded", "UPDATE register SET value = $1", []any{make(chan int)}, "encode"},
		{"error of the statement", "UPDATE register SET id = 1/0", nil, "division by zero"},
		{"table that is not there", "DELETE FROM nothing", nil, `relation "nothing" does not exist`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, g := range []*Guard{e.guard, simple} {
				rows, err := g.Exec(t.Context(), claim(33), tt.sql, tt.args...)
				if rows != 0 || err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%d rows, error %v; want %q", rows, err, tt.want)
				}
				for _, class := range []error{fencing.ErrRetry, fencing.ErrUnknown, fencing.ErrFenced} {
					if errors.Is(err, class) {
						t.Errorf("error %v has the class %q", err, class)
					}
				}
			}
		})
	}
	if got := e.register(t); got != "1=initial" {
		t.Errorf("the register is %q", got)
	}
}

// TestRefusedWriteTouchesNothing: the check comes first, so a refused statement
// runs no trigger and waits for no row.
func TestRefusedWriteTouchesNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	must(t, e.guard.Raise(t.Context(), claim(34)))
	lock := e.begin(t)
	_, err := lock.Exec(t.Context(), "SELECT 1 FROM register FOR UPDATE")
	must(t, err)
	for name, write := range writers {
		if err := write(t, e.guard, claim(33), "x"); !errors.Is(err, fencing.ErrFenced) {
			t.Errorf("%s: %v", name, err)
		}
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

	_, err = e.guard.Exec(ctx, claim(33), "INSERT INTO register VALUES (1, 'stale') ON CONFLICT (id) DO UPDATE SET value = excluded.value")
	wantClass(t, err, fencing.ErrFenced)
	if got := e.register(t); got != "" {
		t.Errorf("the register is %q, want it empty", got)
	}

	_, err = e.pool.Exec(ctx, `CREATE TABLE naive (id int PRIMARY KEY, token bigint NOT NULL)`)
	must(t, err)
	tag, err := e.pool.Exec(ctx, `INSERT INTO naive VALUES (1, 33) ON CONFLICT (id) DO UPDATE SET token = 33 WHERE naive.token <= 33`)
	must(t, err)
	if tag.RowsAffected() != 1 {
		t.Error("the naive upsert was refused, so this test shows nothing")
	}
}

func TestTxReturnsWhatItsFunctionSays(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	must(t, e.guard.Raise(t.Context(), claim(33)))
	run := func(fn func(tx pgx.Tx) error) error { return e.guard.Tx(t.Context(), claim(33), fn) }
	set := func(tx pgx.Tx) {
		_, err := tx.Exec(t.Context(), setValue, "x")
		must(t, err)
	}
	raise := func(tx pgx.Tx, state string) error {
		_, err := tx.Exec(t.Context(), "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '"+state+"'; END $$")
		return err
	}
	tests := []struct {
		name  string
		fn    func(tx pgx.Tx) error
		is    error
		retry bool
	}{
		{"an error of its own", func(tx pgx.Tx) error { set(tx); return io.ErrShortWrite }, io.ErrShortWrite, false},
		{"no rows", func(tx pgx.Tx) error { set(tx); return pgx.ErrNoRows }, pgx.ErrNoRows, false},
		{"deadlock", func(tx pgx.Tx) error { set(tx); return raise(tx, "40P01") }, nil, true},
		{"lock timeout", func(tx pgx.Tx) error { set(tx); return raise(tx, "55P03") }, nil, true},
		{"constraint", func(tx pgx.Tx) error { set(tx); return raise(tx, "23505") }, nil, false},
		{"an error that it swallowed", func(tx pgx.Tx) error { set(tx); _ = raise(tx, "23505"); return nil }, pgx.ErrTxCommitRollback, false},
	}
	for _, tt := range tests {
		err := run(tt.fn)
		if err == nil || (tt.is != nil && !errors.Is(err, tt.is)) {
			t.Errorf("%s: error %v, want %v", tt.name, err, tt.is)
		}
		if errors.Is(err, fencing.ErrRetry) != tt.retry || errors.Is(err, fencing.ErrUnknown) {
			t.Errorf("%s: error %v, ErrRetry wanted: %v", tt.name, err, tt.retry)
		}
		e.wantValue(t, "initial")
	}

	func() {
		defer func() { _ = recover() }()
		_ = run(func(tx pgx.Tx) error { set(tx); panic("of the function") })
	}()
	must(t, e.guard.Raise(t.Context(), claim(34))) // nothing is left that holds the mark
	e.wantValue(t, "initial")
	if n := e.pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections were not given back", n)
	}
}

// TestDeferredConstraint: an error at commit that the server reports is not
// ambiguous.
func TestDeferredConstraint(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := t.Context()
	_, err := e.pool.Exec(ctx, "CREATE TABLE child (id int REFERENCES register DEFERRABLE INITIALLY DEFERRED)")
	must(t, err)
	must(t, e.guard.Raise(ctx, claim(33)))
	const orphan = "INSERT INTO child VALUES (9)"
	_, execErr := e.guard.Exec(ctx, claim(33), orphan)
	txErr := e.guard.Tx(ctx, claim(33), func(tx pgx.Tx) error { _, err := tx.Exec(ctx, orphan); return err })
	for _, err := range []error{execErr, txErr} {
		if !isState(err, "23503") || errors.Is(err, fencing.ErrUnknown) || errors.Is(err, fencing.ErrRetry) {
			t.Errorf("error %v, want the constraint's own", err)
		}
	}
}

// TestCheckOfTwoResources makes one transaction conditional on two marks.
func TestCheckOfTwoResources(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := t.Context()
	other := New(e.pool, "invoices")
	must(t, other.Arm(ctx, issuer))
	must(t, e.guard.Raise(ctx, claim(33)))
	must(t, other.Raise(ctx, claim(7)))
	both := func() error {
		return e.guard.Tx(ctx, claim(33), func(tx pgx.Tx) error {
			if err := other.Check(ctx, tx, claim(7)); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, setValue, "both")
			return err
		})
	}
	must(t, both())
	must(t, other.Raise(ctx, claim(8)))
	err := both()
	if !errors.Is(err, fencing.ErrFenced) || !strings.Contains(err.Error(), `"invoices"`) {
		t.Errorf("error %v, want the other resource's refusal", err)
	}
}
