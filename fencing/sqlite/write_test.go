// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"leasehold.dev/fencing"
)

// TestFrozenBetweenCheckAndWrite stops the old holder after its check, and lets
// the new one raise and write.
func TestFrozenBetweenCheckAndWrite(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run("Tx in mode "+mode, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, "journal_mode("+mode+")")
			ctx := t.Context()
			must(t, e.guard.Raise(ctx, claim(33)))
			must(t, e.guard.Tx(ctx, claim(33), func(tx *sql.Tx) error {
				wantClass(t, e.guard.Raise(ctx, claim(34)), fencing.ErrRetry) // the raise cannot pass a write
				_, err := tx.Exec(setValue, "33")
				return err
			}))
			must(t, e.guard.Raise(ctx, claim(34)))
			e.wantValue(t, "33") // the new holder sees it
			for _, write := range writers {
				wantClass(t, write(ctx, e.guard, claim(33), "stale"), fencing.ErrFenced)
			}
			e.wantValue(t, "33")
		})
		t.Run("naive: check, then write, in mode "+mode, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, "journal_mode("+mode+")")
			ctx := t.Context()
			must(t, e.guard.Raise(ctx, claim(33)))
			m, err := e.guard.Read(ctx)
			must(t, err)
			must(t, fencing.DecideWrite(m, claim(33)))
			must(t, e.guard.Raise(ctx, claim(34)))
			must(t, writers["Tx"](ctx, e.guard, claim(34), "34"))
			_, err = e.db.Exec(setValue, "33")
			must(t, err)
			e.wantValue(t, "33") // the hole
		})
	}
}

// TestReadBeforeCheck: a transaction that has read before it checks cannot
// write past a raise in between. Nor can it wait for its turn: what it has read is
// old.
func TestReadBeforeCheck(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "journal_mode(wal)", "busy_timeout(60000)")
	ctx := t.Context()
	must(t, e.guard.Raise(ctx, claim(33)))
	tx := e.begin(t)
	var seen string
	must(t, tx.QueryRow("SELECT value FROM register").Scan(&seen))
	must(t, e.guard.Raise(ctx, claim(34)))
	wantClass(t, e.guard.Check(ctx, tx, claim(33)), fencing.ErrRetry)
	must(t, tx.Rollback())
	wantClass(t, e.guard.Check(ctx, e.begin(t), claim(33)), fencing.ErrFenced)
}

// TestFrozenProcess: a holder's process that is stopped inside a transaction
// keeps its successor out, until it is killed; then what it had not committed is
// gone.
func TestFrozenProcess(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, "journal_mode("+mode+")")
			must(t, e.guard.Raise(t.Context(), claim(33)))
			holder := exec.CommandContext(t.Context(), os.Args[0])
			holder.Env = append(os.Environ(), helperEnv+"="+e.path)
			out, err := holder.StdoutPipe()
			must(t, err)
			must(t, holder.Start())
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "writing\n" {
				t.Fatalf("the holder says %q, %v", line, err)
			}
			wantClass(t, e.guard.Raise(t.Context(), claim(34)), fencing.ErrRetry)
			must(t, holder.Process.Kill())
			_ = holder.Wait() // it was killed
			must(t, e.guard.Raise(t.Context(), claim(34)))
			e.wantValue(t, "initial")
		})
	}
}

func TestExec(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := t.Context()
	wantClass(t, writers["Exec"](ctx, e.guard, claim(33), "x"), fencing.ErrNotRaised)
	must(t, e.guard.Raise(ctx, claim(33)))
	for _, tt := range []struct {
		name  string
		query string
		args  []any
		rows  int64
		err   string
	}{
		{"update", setValue, []any{"a"}, 1, ""},
		{"the same again", setValue, []any{"a"}, 1, ""},
		{"no row matches", "DELETE FROM register WHERE id = 9", nil, 0, ""},
		{"insert", "INSERT INTO register VALUES (?, ?), (?, ?)", []any{2, "x", 3, "y"}, 2, ""},
		{"upsert", "INSERT INTO register VALUES (1, 'b') ON CONFLICT DO UPDATE SET value = excluded.value", nil, 1, ""},
		{"commit in the middle", "UPDATE register SET value = 'c'; COMMIT; DELETE FROM register", nil, 0, "ended"},
		{"rollback in the middle", "UPDATE register SET value = 'c'; ROLLBACK; DELETE FROM register", nil, 0, "ended"},
		{"DDL", "DROP TABLE register", nil, 0, "use Tx"},
		{"commit", "COMMIT", nil, 0, "use Tx"},
		{"error of the statement", "UPDATE register SET value = NULL", nil, 0, "NOT NULL"},
		{"table that is not there", "DELETE FROM missing", nil, 0, "no such table"},
	} {
		rows, err := e.guard.Exec(ctx, claim(33), tt.query, tt.args...)
		switch {
		case tt.err == "" && (err != nil || rows != tt.rows):
			t.Errorf("%s: %d rows, %v; want %d", tt.name, rows, err, tt.rows)
		case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.err)
		case tt.err == "ended" && !errors.Is(err, fencing.ErrRetry):
			t.Errorf("%s: error %v, want ErrRetry", tt.name, err)
		}
	}
	e.wantValue(t, "b")
}

// TestOverlookedRollback lets a function overlook that its transaction was
// rolled back, and go on after another holder has raised.
func TestOverlookedRollback(t *testing.T) {
	t.Parallel()
	for _, ending := range []string{"INSERT OR ROLLBACK INTO register VALUES (1, 'again')", "ROLLBACK", "COMMIT"} {
		work := func(t *testing.T, e *env) func(tx *sql.Tx) error {
			return func(tx *sql.Tx) error {
				_, _ = tx.Exec(ending)
				err := e.guard.Raise(t.Context(), claim(34))
				if _, writeErr := tx.Exec(setValue, "stale"); err == nil && writeErr != nil {
					return io.EOF // not that error: it is overlooked too
				}
				return nil
			}
		}
		t.Run("Tx with "+ending, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			must(t, e.guard.Raise(t.Context(), claim(33)))
			if err := e.guard.Tx(t.Context(), claim(33), work(t, e)); err == nil {
				t.Error("no error of a transaction that ended")
			}
			e.wantValue(t, "initial")
			must(t, e.guard.Raise(t.Context(), claim(34)))
			must(t, writers["Tx"](t.Context(), e.guard, claim(34), "34")) // the pool's connections are in order
			_, err := e.db.Exec(setValue, "of another part of the program")
			must(t, err)
		})
		t.Run("naive: a check at the start of a common transaction, with "+ending, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			must(t, e.guard.Raise(t.Context(), claim(33)))
			tx := e.begin(t)
			must(t, e.guard.Check(t.Context(), tx, claim(33)))
			must(t, work(t, e)(tx))
			_ = tx.Rollback()
			e.wantValue(t, "stale")
		})
	}
}

func TestTxReturnsWhatItsFunctionSays(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := t.Context()
	must(t, e.guard.Raise(ctx, claim(33)))
	for _, want := range []error{io.ErrUnexpectedEOF, sql.ErrNoRows, context.DeadlineExceeded} {
		err := e.guard.Tx(ctx, claim(33), func(tx *sql.Tx) error {
			_, err := tx.Exec(setValue, "x")
			return errors.Join(err, want)
		})
		if !errors.Is(err, want) || classified(err) {
			t.Errorf("error %v, want %v without a class", err, want)
		}
		e.wantValue(t, "initial")
	}
	ended, cancel := context.WithCancel(ctx)
	err := e.guard.Tx(ended, claim(33), func(tx *sql.Tx) error {
		_, err := tx.Exec(setValue, "x")
		cancel()
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = e.guard.Tx(ctx, claim(33), func(*sql.Tx) error { panic("of the function") })
	}()
	must(t, e.guard.Raise(ctx, claim(34))) // nothing is left that holds the file
	e.wantValue(t, "initial")
	if n := e.db.Stats().InUse; n != 0 {
		t.Errorf("%d connections were not given back", n)
	}
}

// TestFailedCommit: a commit that SQLite refuses was not done.
func TestFailedCommit(t *testing.T) {
	t.Parallel()
	e := newEnv(t, "foreign_keys(1)", "journal_mode(delete)")
	ctx := t.Context()
	must(t, e.guard.Raise(ctx, claim(33)))
	_, err := e.db.Exec("CREATE TABLE child (id INTEGER REFERENCES register DEFERRABLE INITIALLY DEFERRED)")
	must(t, err)
	_, err = e.guard.Exec(ctx, claim(33), "INSERT INTO child VALUES (9)")
	if err == nil || classified(err) || !strings.Contains(err.Error(), "FOREIGN KEY") {
		t.Errorf("error %v, want the constraint's own", err)
	}

	// A reader keeps the commit from changing the file.
	reader := e.begin(t)
	var value string
	must(t, reader.QueryRow("SELECT value FROM register").Scan(&value))
	wantClass(t, writers["Tx"](ctx, e.guard, claim(33), "x"), fencing.ErrRetry)
	wantClass(t, e.guard.Raise(ctx, claim(34)), fencing.ErrRetry)
	must(t, reader.Rollback())
	e.wantValue(t, "initial")
	e.wantMark(t, fencing.Mark(claim(33)))
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
