// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold.dev/fencing"
)

// TestLostReply breaks the connection around the moment of commit, looks up by
// its nonce whether the write was done, and expects ErrUnknown wherever it may
// have been.
func TestLostReply(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		writer string
		cut    cut
		want   error
		done   bool
	}{
		{"reply to commit", "Tx", lostTag("COMMIT"), fencing.ErrUnknown, true},
		{"server not ready after commit", "Tx", lostReady("COMMIT"), fencing.ErrUnknown, true},
		{"request to commit", "Tx", lostText("commit"), fencing.ErrUnknown, false},
		{"reply to begin", "Tx", lostTag("BEGIN"), fencing.ErrRetry, false},
		{"reply to the check", "Tx", lostRow(), fencing.ErrRetry, false},
		{"reply to the work", "Tx", lostTag("UPDATE"), fencing.ErrRetry, false},
		{"result", "Exec", lostRow(), fencing.ErrUnknown, true},
		{"tag", "Exec", lostTag("SELECT 1"), fencing.ErrUnknown, true},
		{"server not ready after the result", "Exec", lostReady("SELECT 1"), fencing.ErrUnknown, true},
		{"request", "Exec", lostRequest(), fencing.ErrUnknown, false},
	}
	for _, tt := range tests {
		t.Run(tt.writer+": "+tt.name, func(t *testing.T) {
			t.Parallel()
			e, p := newEnv(t), newProxy(t)
			must(t, e.guard.Raise(t.Context(), claim(33)))
			g := New(p.pool(t, e), "orders")
			must(t, writers[tt.writer](t, g, claim(33), "earlier")) // connects and prepares

			nonce := rand.Text()
			p.arm(tt.cut)
			err := writers[tt.writer](t, g, claim(33), nonce)
			if !p.done() {
				t.Fatalf("nothing was cut: %v", err)
			}
			wantClass(t, err, tt.want)
			if done := e.settled(t) == nonce; done != tt.done {
				t.Errorf("the write was done: %v, want %v", done, tt.done)
			}
			must(t, writers[tt.writer](t, g, claim(33), "later")) // the pool has a new connection
		})
	}
}

// settled reads the register once no other transaction is left in it: a server
// may notice late that a client is gone.
func (e *env) settled(t *testing.T) string {
	t.Helper()
	e.waitFor(t, "every transaction has ended", nil, `SELECT count(*) = 0 FROM pg_stat_activity
		WHERE datname = current_database() AND backend_type = 'client backend'
		  AND xact_start IS NOT NULL AND pid <> pg_backend_pid()`)
	return e.value(t)
}

// TestLostReplyToRaise: a raise can be repeated, whether or not it was done.
func TestLostReplyToRaise(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		cut    cut
		raised bool
	}{
		"request": {lostRequest(), false},
		"reply":   {lostRow(), true},
		"ready":   {lostReady("SELECT 1"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, p := newEnv(t), newProxy(t)
			g := New(p.pool(t, e), "orders")
			must(t, g.Raise(t.Context(), claim(33)))

			p.arm(tt.cut)
			err := g.Raise(t.Context(), claim(34))
			wantClass(t, err, fencing.ErrRetry)
			want := fencing.Mark(claim(33))
			if tt.raised {
				want = fencing.Mark(claim(34))
			}
			e.wantMark(t, want)
			must(t, g.Raise(t.Context(), claim(34)))
			e.wantMark(t, fencing.Mark(claim(34)))
		})
	}
}

// TestContextEnds: a caller that gives up gets its own error back where nothing
// was done, and ErrUnknown where it may have been.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	must(t, e.guard.Raise(t.Context(), claim(33)))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, write := range map[string]func(context.Context) error{
		"Exec": func(ctx context.Context) error { _, err := e.guard.Exec(ctx, claim(33), setValue, "x"); return err },
		"Tx": func(ctx context.Context) error {
			return e.guard.Tx(ctx, claim(33), func(tx pgx.Tx) error { _, err := tx.Exec(ctx, setValue, "x"); return err })
		},
	} {
		err := write(ended)
		if !errors.Is(err, context.Canceled) || errors.Is(err, fencing.ErrRetry) || errors.Is(err, fencing.ErrUnknown) {
			t.Errorf("%s with an ended context: %v", name, err)
		}

		lock := e.begin(t)
		_, err = lock.Exec(t.Context(), "SELECT 1 FROM register FOR UPDATE")
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		task := start(func() error { return write(ctx) })
		e.waitBlocked(t, 1, task.done)
		cancel()
		err = task.wait(t)
		must(t, lock.Rollback(t.Context()))
		if unknown := errors.Is(err, fencing.ErrUnknown); !errors.Is(err, context.Canceled) || unknown != (name == "Exec") {
			t.Errorf("%s whose context ended while it ran: %v", name, err)
		}
	}
}

// TestSessionIsTerminated: the server ends the session while the write waits.
func TestSessionIsTerminated(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]error{"Exec": fencing.ErrUnknown, "Tx": fencing.ErrRetry} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			must(t, e.guard.Raise(t.Context(), claim(33)))
			lock := e.begin(t)
			_, err := lock.Exec(t.Context(), "SELECT 1 FROM register FOR UPDATE")
			must(t, err)
			task := start(func() error { return writers[name](t, e.guard, claim(33), "x") })
			e.waitBlocked(t, 1, task.done)
			_, err = e.pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0`)
			must(t, err)
			wantClass(t, task.wait(t), want)
			must(t, lock.Rollback(t.Context()))
			e.wantValue(t, "initial")
		})
	}
}

// TestServerUnreachable: where no connection could be made, nothing was sent.
func TestServerUnreachable(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "host="+t.TempDir()+" user=postgres") // no socket there
	must(t, err)
	t.Cleanup(pool.Close)
	g := New(pool, "orders")
	for name, write := range writers {
		if err := write(t, g, claim(33), "x"); !errors.Is(err, fencing.ErrRetry) {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantClass(t, g.Raise(t.Context(), claim(33)), fencing.ErrRetry)
	_, err = g.Read(t.Context())
	wantClass(t, err, fencing.ErrRetry)
}
