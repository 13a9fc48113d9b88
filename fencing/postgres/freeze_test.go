// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"leasehold.dev/fencing"
)

// variant is one way to make a write of the register depend on a claim.
type variant struct {
	name  string
	safe  bool
	write func(ctx context.Context, g *Guard, c fencing.Claim, value string) error
}

// variants are the two ways of this package, and those that look alike and do
// not hold. The latter are the negative controls: a scenario that does not
// catch them would not notice if ours were no better.
var variants = []variant{
	{"Exec", true, func(ctx context.Context, g *Guard, c fencing.Claim, value string) error {
		_, err := g.Exec(ctx, c, setValue, value)
		return err
	}},
	{"Tx", true, func(ctx context.Context, g *Guard, c fencing.Claim, value string) error {
		return g.Tx(ctx, c, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, setValue, value)
			return err
		})
	}},
	{"CTE with FOR SHARE", true, oneStatement(`WITH g AS MATERIALIZED (
		SELECT 1 FROM leasehold.mark WHERE resource = 'orders' AND token = $2 AND holder = $3 FOR SHARE)
		UPDATE register SET value = $1 FROM g WHERE id = 1`)},
	{"naive: SELECT, then write", false, selectThenWrite("")},
	{"naive: SELECT FOR KEY SHARE, then write", false, selectThenWrite("FOR KEY SHARE")},
	{"naive: sub-select of the token", false, oneStatement(`UPDATE register SET value = $1
		WHERE id = 1 AND (SELECT token FROM leasehold.mark WHERE resource = 'orders') <= $2 AND $3 <> ''`)},
	{"naive: EXISTS", false, oneStatement(`UPDATE register SET value = $1
		WHERE id = 1 AND EXISTS (SELECT 1 FROM leasehold.mark WHERE resource = 'orders' AND token = $2 AND holder = $3)`)},
}

// selectThenWrite checks in the transaction of the write, with a lock clause
// that does not hold the raise up.
func selectThenWrite(lock string) func(context.Context, *Guard, fencing.Claim, string) error {
	return func(ctx context.Context, g *Guard, c fencing.Claim, value string) error {
		return pgx.BeginFunc(ctx, g.db, func(tx pgx.Tx) error {
			var m fencing.Mark
			err := tx.QueryRow(ctx, "SELECT issuer, token, holder FROM leasehold.mark WHERE resource = 'orders' "+lock).
				Scan(&m.Issuer, &m.Token, &m.Holder)
			if err != nil {
				return err
			}
			if err := fencing.DecideWrite(m, c); err != nil {
				return err
			}
			_, err = tx.Exec(ctx, setValue, value)
			return err
		})
	}
}

// oneStatement takes no affected row for a refusal.
func oneStatement(sql string) func(context.Context, *Guard, fencing.Claim, string) error {
	return func(ctx context.Context, g *Guard, c fencing.Claim, value string) error {
		tag, err := g.db.Exec(ctx, sql, value, c.Token, c.Holder)
		if err == nil && tag.RowsAffected() == 0 {
			return &fencing.FencedError{Mine: c}
		}
		return err
	}
}

// TestFrozenBetweenCheckAndWrite stops the old holder after its check, where
// its write waits for the lock of a row; meanwhile the new one raises, and reads
// once the raise has returned. A write that is accepted and that the new holder
// did not see is a stale one.
func TestFrozenBetweenCheckAndWrite(t *testing.T) {
	t.Parallel()
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			must(t, e.guard.Raise(t.Context(), claim(33)))
			lock := e.begin(t)
			_, err := lock.Exec(t.Context(), "UPDATE register SET value = 'before' WHERE id = 1")
			must(t, err)

			stale := start(func() error { return v.write(t.Context(), e.guard, claim(33), "33") })
			e.waitBlocked(t, 1, nil)
			var seen string
			raise := start(func() error {
				if err := e.guard.Raise(t.Context(), claim(34)); err != nil {
					return err
				}
				return e.pool.QueryRow(t.Context(), "SELECT value FROM register WHERE id = 1").Scan(&seen)
			})
			raiseWaits := e.waitBlocked(t, 2, raise.done)
			must(t, lock.Commit(t.Context()))
			must(t, stale.wait(t)) // its check was good at the time
			must(t, raise.wait(t))

			hole := seen != "33"
			if hole == v.safe {
				t.Errorf("the stale write was accepted, and the new holder read %q: hole = %v, want %v", seen, hole, !v.safe)
			}
			if raiseWaits != v.safe {
				t.Errorf("the raise waited for the checked write: %v, want %v", raiseWaits, v.safe)
			}
			wantClass(t, e.guard.Raise(t.Context(), claim(33)), fencing.ErrFenced)
		})
	}
}

// raises are two ways to move a mark: ours, and by hand, which does not queue,
// so that the row's lock alone must stop the stale write.
var raises = map[string]string{
	"raise_mark": "SELECT leasehold.raise_mark($1, $2, $3, $4)",
	"by hand":    "UPDATE leasehold.mark SET token = $3, holder = $4 WHERE resource = $1 AND issuer = $2",
}

// TestOvertakenWhileItWaits lets the new holder raise and write in one
// transaction that is not committed when the old one's write arrives. The
// write waits, and must find out when it goes on.
func TestOvertakenWhileItWaits(t *testing.T) {
	t.Parallel()
	for how, raise := range raises {
		for _, v := range variants {
			t.Run(v.name+", raised "+how, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				must(t, e.guard.Raise(t.Context(), claim(33)))
				newer := e.beginRaised(t, 34, raise)
				_, err := newer.Exec(t.Context(), setValue, "34")
				must(t, err)

				stale := start(func() error { return v.write(t.Context(), e.guard, claim(33), "33") })
				if !e.waitBlocked(t, 1, stale.done) {
					t.Fatalf("the stale write did not wait: %v", stale.err)
				}
				must(t, newer.Commit(t.Context()))
				err = stale.wait(t)
				if v.safe {
					wantClass(t, err, fencing.ErrFenced)
					e.wantValue(t, "34")
				} else {
					wantClass(t, err, nil)
					e.wantValue(t, "33") // the hole: the new holder's write is gone
				}
			})
		}
	}
}

// beginRaised opens a transaction that has raised to token.
func (e *env) beginRaised(t *testing.T, token int64, raise string) pgx.Tx {
	t.Helper()
	tx := e.begin(t)
	_, err := tx.Exec(t.Context(), raise, e.guard.claimArgs(claim(token))...)
	must(t, err)
	return tx
}

// TestRaiserGivesUp: a write that waited for a raise that never came is good.
func TestRaiserGivesUp(t *testing.T) {
	t.Parallel()
	for name, write := range writers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			must(t, e.guard.Raise(t.Context(), claim(33)))
			newer := e.beginRaised(t, 34, raises["raise_mark"])
			task := start(func() error { return write(t, e.guard, claim(33), "33") })
			e.waitBlocked(t, 1, task.done)
			must(t, newer.Rollback(t.Context()))
			must(t, task.wait(t))
			e.wantValue(t, "33")
		})
	}
}

// TestStricterIsolation: an overtaken write is told to try again, and then why
// not, also where the new holder has not touched the row that it writes.
func TestStricterIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		for name, write := range writers {
			for how, raise := range raises {
				t.Run(name+" at "+level+", raised "+how, func(t *testing.T) {
					t.Parallel()
					e := newEnv(t, "default_transaction_isolation", level)
					must(t, e.guard.Raise(t.Context(), claim(33)))
					must(t, write(t, e.guard, claim(33), "33"))
					newer := e.beginRaised(t, 34, raise)
					stale := start(func() error { return write(t, e.guard, claim(33), "stale") })
					if !e.waitBlocked(t, 1, stale.done) {
						t.Fatalf("the stale write did not wait: %v", stale.err)
					}
					must(t, newer.Commit(t.Context()))
					wantClass(t, stale.wait(t), fencing.ErrRetry)
					wantClass(t, write(t, e.guard, claim(33), "stale"), fencing.ErrFenced)
					e.wantValue(t, "33")
					must(t, e.guard.Raise(t.Context(), claim(35)))
					must(t, write(t, e.guard, claim(35), "35"))
				})
			}
		}
	}
}

// TestRaiseWaitsForFrozenTransaction: a holder that freezes inside its
// transaction keeps the raise waiting, for as long as the raiser has patience or
// the holder's session may idle.
func TestRaiseWaitsForFrozenTransaction(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := t.Context()
	must(t, e.guard.Raise(ctx, claim(33)))
	frozen := e.begin(t)
	must(t, e.guard.Check(ctx, frozen, claim(33)))
	_, err := frozen.Exec(ctx, setValue, "33")
	must(t, err)

	impatient := New(e.newPool(t, "lock_timeout", "1ms"), "orders")
	wantClass(t, impatient.Raise(ctx, claim(34)), fencing.ErrRetry)

	cut, cancel := context.WithCancel(ctx)
	gaveUp := start(func() error { return e.guard.Raise(cut, claim(34)) })
	e.waitBlocked(t, 1, gaveUp.done)
	cancel()
	if err := gaveUp.wait(t); !errors.Is(err, context.Canceled) || errors.Is(err, fencing.ErrRetry) {
		t.Errorf("raise whose context ended: %v, want just that", err)
	}

	raise := start(func() error { return e.guard.Raise(ctx, claim(34)) })
	if !e.waitBlocked(t, 1, raise.done) {
		t.Fatalf("the raise did not wait: %v", raise.err)
	}
	_, err = frozen.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = '1ms'")
	must(t, err)
	must(t, raise.wait(t))
	wantClass(t, e.guard.CommitError(ctx, claim(33), frozen.Commit(ctx)), fencing.ErrRetry)
	e.wantValue(t, "initial")
	wantClass(t, writers["Tx"](t, e.guard, claim(33), "33"), fencing.ErrFenced)
}

// TestRaiseIsNotStarved: while a raise waits for one transaction of the old
// holder, the next one must wait behind it. With the row's lock alone it joins
// the first, and holders with overlapping transactions keep the raise out.
func TestRaiseIsNotStarved(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]struct {
		sql  string
		fair bool
	}{
		"check_mark":            {"SELECT leasehold.check_mark($1, $2, $3, $4)", true},
		"naive: FOR SHARE only": {"SELECT 1 FROM leasehold.mark WHERE resource = $1 AND issuer = $2 AND token = $3 AND holder = $4 FOR SHARE", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			ctx := t.Context()
			args := e.guard.claimArgs(claim(33))
			must(t, e.guard.Raise(ctx, claim(33)))
			first, second := e.begin(t), e.begin(t)
			_, err := first.Exec(ctx, check.sql, args...)
			must(t, err)
			raise := start(func() error { return e.guard.Raise(ctx, claim(34)) })
			e.waitBlocked(t, 1, raise.done)

			next := start(func() error { _, err := second.Exec(ctx, check.sql, args...); return err })
			if waits := e.waitBlocked(t, 2, next.done); waits != check.fair {
				t.Errorf("the second transaction waits behind the raise: %v, want %v", waits, check.fair)
			}
			must(t, first.Commit(ctx))
			if check.fair {
				must(t, raise.wait(t))
				if err := next.wait(t); !isState(err, stateRefused) {
					t.Errorf("the second transaction: %v, want it refused", err)
				}
				return
			}
			must(t, next.wait(t))
			select {
			case <-raise.done:
				t.Errorf("the raise got through: %v", raise.err)
			default: // it still waits, now for the second
			}
			must(t, second.Commit(ctx))
			must(t, raise.wait(t))
		})
	}
}
