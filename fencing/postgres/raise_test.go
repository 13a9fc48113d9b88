// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"leasehold.dev/fencing"
)

var seed = flag.Uint64("seed", 0, "seed of the conformance runs; 0 draws one")

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
