// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"leasehold.dev/fencing"
	"leasehold.dev/fencing/fencetest"
)

var (
	seed = flag.Uint64("seed", 0, "seed of the contended runs; 0 draws one")
	ops  = flag.Int("ops", 2500, "raises and writes of each contended run")
)

// TestContended lets eight workers take a journal over from each other at
// random, while stale holders go on writing to it.
func TestContended(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	for _, level := range []string{"read committed", "repeatable read"} {
		t.Run(level, func(t *testing.T) {
			target := newTarget(t, level)
			counts, wrong := contend(t, target)
			for _, fault := range wrong[:min(5, len(wrong))] {
				t.Error(fault)
			}
			if counts.Accepted < *ops/20 || counts.Refused < *ops/50 || counts.Raised < *ops/50 {
				t.Errorf("too little happened to mean anything: %+v", counts)
			}
		})
	}
	t.Run("naive", func(t *testing.T) {
		counts, wrong := contend(t, naive{newTarget(t, "read committed")})
		if len(wrong) == 0 {
			t.Errorf("a check before the write was not caught, so this test shows nothing: %+v", counts)
		} else {
			t.Logf("caught, as it should be: %d faults, the first: %s", len(wrong), wrong[0])
		}
	})
}

func contend(t *testing.T, target fencetest.Target) (fencetest.Counts, []string) {
	t.Helper()
	t.Logf("-args -seed=%d -ops=%d", *seed, *ops)
	history, counts, err := fencetest.Contend(t.Context(), target, fencetest.Options{Seed: *seed, Ops: *ops, Workers: 8})
	must(t, err)
	journal, err := target.Journal(t.Context())
	must(t, err)
	mark, err := target.Read(t.Context())
	must(t, err)
	t.Logf("%+v", counts)
	return counts, fencetest.Judge(journal, mark, history)
}

// target is a journal in one row, so that the row's lock puts the entries in
// the order of their commits.
type target struct {
	*Guard
	e *env
}

func newTarget(t *testing.T, isolation string) target {
	t.Helper()
	e := newEnv(t, "default_transaction_isolation", isolation)
	_, err := e.pool.Exec(t.Context(), "UPDATE register SET value = ''; DELETE FROM leasehold.mark")
	must(t, err)
	return target{e.guard, e}
}

const appendEntry = "UPDATE register SET value = value || $1 WHERE id = 1"

// Append takes turns with the two shapes of a write.
func (tg target) Append(ctx context.Context, c fencing.Claim, nonce string) error {
	h := fnv.New32()
	_, _ = h.Write([]byte(nonce)) // never fails
	if h.Sum32()%2 == 0 {
		_, err := tg.Exec(ctx, c, appendEntry, entry(c, nonce))
		return err
	}
	return tg.Tx(ctx, c, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, appendEntry, entry(c, nonce))
		return err
	})
}

func entry(c fencing.Claim, nonce string) string {
	return fmt.Sprintf("%d/%s/%s ", c.Token, c.Holder, nonce)
}

func (tg target) Journal(ctx context.Context) ([]fencetest.Entry, error) {
	var text string
	if err := tg.e.pool.QueryRow(ctx, "SELECT value FROM register WHERE id = 1").Scan(&text); err != nil {
		return nil, err
	}
	var journal []fencetest.Entry
	for f := range strings.FieldsSeq(text) {
		parts := strings.Split(f, "/")
		token, err := strconv.ParseInt(parts[0], 10, 64)
		if err != nil {
			return nil, err
		}
		journal = append(journal, fencetest.Entry{Token: token, Holder: parts[1], Nonce: parts[2]})
	}
	return journal, nil
}

// naive checks the mark in the same transaction, without a lock.
type naive struct{ target }

func (n naive) Append(ctx context.Context, c fencing.Claim, nonce string) error {
	return pgx.BeginFunc(ctx, n.e.pool, func(tx pgx.Tx) error {
		var m fencing.Mark
		err := tx.QueryRow(ctx, "SELECT issuer, token, holder FROM leasehold.mark").Scan(&m.Issuer, &m.Token, &m.Holder)
		if err != nil {
			return err
		}
		if err := fencing.DecideWrite(m, c); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, appendEntry, entry(c, nonce))
		return err
	})
}

// TestConcurrentRaises: of claims that raise at the same moment, in any order,
// the greatest has the mark in the end, and every other was refused or overtaken.
func TestConcurrentRaises(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	const n = 12
	gate := e.beginRaised(t, 1, raises["raise_mark"]) // all of them wait for it
	tasks := make([]*task, n)
	for i, token := range rand.Perm(n) {
		tasks[i] = start(func() error {
			err := e.guard.Raise(t.Context(), claim(int64(token+2)))
			if err != nil {
				return err
			}
			m, err := e.guard.Read(t.Context())
			if err == nil && m.Token < int64(token+2) {
				err = fmt.Errorf("the mark is %v after token %d had raised", m, token+2)
			}
			return err
		})
	}
	e.waitBlocked(t, n, nil)
	must(t, gate.Commit(t.Context()))
	for _, tk := range tasks {
		if err := tk.wait(t); err != nil {
			wantClass(t, err, fencing.ErrFenced)
		}
	}
	e.wantMark(t, fencing.Mark(claim(n+1)))
}

// TestCollidingRaises: of two holders that were granted one token, one gets
// the mark, and the other is told of the collision.
func TestCollidingRaises(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	gate := e.beginRaised(t, 1, raises["raise_mark"])
	a, b := claim(5), claim(5)
	b.Holder = "another"
	raises := []*task{
		start(func() error { return e.guard.Raise(t.Context(), a) }),
		start(func() error { return e.guard.Raise(t.Context(), b) }),
	}
	e.waitBlocked(t, 2, nil)
	must(t, gate.Commit(t.Context()))
	errA, errB := raises[0].wait(t), raises[1].wait(t)
	if (errA == nil) == (errB == nil) {
		t.Fatalf("errors %v and %v, want one", errA, errB)
	}
	for _, err := range []error{errA, errB} {
		if err != nil && !strings.Contains(err.Error(), "granted twice") {
			t.Errorf("error %v, want ErrFenced for a collision", err)
		}
	}
}

// TestWritersOfOneHolderShare: two of its transactions are open at once, and
// neither waits.
func TestWritersOfOneHolderShare(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	must(t, e.guard.Raise(t.Context(), claim(33)))
	first, second := e.begin(t), e.begin(t)
	must(t, e.guard.Check(t.Context(), first, claim(33)))
	must(t, e.guard.Check(t.Context(), second, claim(33)))
	// Nor does the holder's own repeated raise, or a stale one, wait for them.
	impatient := New(e.newPool(t, "lock_timeout", "1s"), "orders")
	must(t, impatient.Raise(t.Context(), claim(33)))
	wantClass(t, impatient.Raise(t.Context(), claim(32)), fencing.ErrFenced)
	wantClass(t, impatient.Raise(t.Context(), claim(34)), fencing.ErrRetry) // this one would
}
