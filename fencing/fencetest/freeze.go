// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"leasehold.dev/fencing"
)

// maxRequests bounds how many requests one operation may take. It is a bound
// on the sweep, not on the adapter.
const maxRequests = 60

// faulty opens a client that the trigger can disturb: through a proxy, or
// where it calls Pause.
func (c *trial) faulty(r Resource) (Target, *Trigger) {
	c.t.Helper()
	return openFaulty(c.t, c.open, r)
}

func openFaulty(t *testing.T, open Opener, r Resource) (Target, *Trigger) {
	t.Helper()
	if r.Addr == "" {
		g := &Trigger{}
		t.Cleanup(func() { g.Disarm() })
		r.Pause = g.pause
		return open(t, r), g
	}
	p := NewProxy(t, r.Addr)
	r.Addr, r.Pause = p.Addr(), p.pause
	return open(t, r), &p.Trigger
}

// frozen stops a write at its first request, then at its second, and so on
// until it has no more.
func frozen(c *trial) {
	for n := 1; n <= maxRequests; n++ {
		if c.frozenAt(n) {
			continue
		}
		c.note = fmt.Sprintf("stopped at %d places", n-1)
		if n == 1 {
			c.t.Fatal("the write could not be stopped: it sent nothing, and did not call Resource.Pause")
		}
		return
	}
	c.t.Fatalf("a write takes more than %d requests", maxRequests)
}

// frozenAt tells whether the write got as far as its nth request.
func (c *trial) frozenAt(n int) bool {
	r := c.resource()
	old, trigger := c.faulty(r)
	cur := c.client(r)
	c.must(cur.Arm(c.ctx, issuer))
	c.raise(old, claim(33))
	c.append(old, claim(33), "warm-up") // connects and prepares
	hit := trigger.Arm(Freeze, n)
	stale := start(func() error { return old.Append(c.ctx, claim(33), "stale") })
	select {
	case <-hit:
	case <-stale.done:
		if !trigger.Disarm() {
			if stale.err != nil {
				c.errorf("undisturbed write: %v", stale.err)
			}
			return false
		}
	}
	to := c.takeOver(cur, claim(34))
	c.settled(to, cur, 1)
	trigger.Disarm()
	err := c.wait(stale)
	h := c.finish(to, claim(33))
	h.outcome(c, fmt.Sprintf("write frozen at request %d", n), "stale", err)
	c.append(cur, claim(34), "later")
	c.fenced("write after the thaw", old, claim(33), claim(34), true)
	h.Accepted = append(h.Accepted, "warm-up", "later")
	c.judge(cur, h)
	return true
}

// openTransaction stops the old holder with its transaction open.
func openTransaction(c *trial) {
	old, cur := c.pair()
	c.raise(old, claim(33))
	tx, err := need[Transactional](c, old).Begin(c.ctx, claim(33), "stale")
	c.must(err)
	to := c.takeOver(cur, claim(34))
	waits := !c.settled(to, cur, 1)
	err = tx.Commit(c.ctx)
	h := c.finish(to, claim(33))
	h.outcome(c, "commit of the old holder's transaction", "stale", err)
	c.append(cur, claim(34), "later")
	h.Accepted = append(h.Accepted, "later")
	c.note = fmt.Sprintf("the take-over waits: %v", waits)
	c.judge(cur, h)

	c.refuse("transaction by an older token", fencing.ErrFenced, func() error {
		tx, err := need[Transactional](c, old).Begin(c.ctx, claim(33), "stale-2")
		if err != nil {
			return err
		}
		return tx.Commit(c.ctx) // some adapters check only now
	})
	c.wantMark(cur, fencing.Mark(claim(34)))
}

// rowLock lets the write of the old holder wait for the data, after its check,
// while the new one raises and reads.
func rowLock(c *trial) {
	old, cur := c.pair()
	c.raise(old, claim(33))
	need[Waiter](c, cur)
	unlock, err := need[Locker](c, cur).Lock(c.ctx)
	c.must(err)
	stale := start(func() error { return old.Append(c.ctx, claim(33), "stale") })
	if c.doneOrWaits(stale, nil, cur, 1) {
		c.t.Fatalf("the write did not wait for the lock: %v", stale.err)
	}
	to := c.takeOver(cur, claim(34))
	waits := !c.settled(to, cur, 2)
	c.must(unlock(c.ctx))
	err = c.wait(stale)
	h := c.finish(to, claim(33))
	h.outcome(c, "write that waited", "stale", err)
	c.append(cur, claim(34), "later")
	h.Accepted = append(h.Accepted, "later")
	c.note = fmt.Sprintf("the take-over waits: %v", waits)
	c.judge(cur, h)
}

// concurrentRaise lets holders raise at the same moment, several times.
func concurrentRaise(c *trial) {
	const rounds, raisers = 10, 6
	rng := rand.New(rand.NewPCG(c.suite.Seed, 1)) //nolint:gosec // Choices that a seed repeats.
	for range rounds {
		r := c.resource()
		targets := make([]Target, raisers+1)
		for i := range targets {
			targets[i] = c.client(r)
		}
		c.must(targets[0].Arm(c.ctx, issuer))
		claims := []fencing.Claim{{Issuer: issuer, Token: raisers, Holder: "twin"}}
		for i := range raisers {
			claims = append(claims, claim(int64(i+1)))
		}
		rng.Shuffle(len(claims), func(i, j int) { claims[i], claims[j] = claims[j], claims[i] })
		c.raiseTogether(targets, claims)
	}
}

func (c *trial) raiseTogether(targets []Target, claims []fencing.Claim) {
	tasks := make([]*task, len(claims))
	for i := range claims {
		tasks[i] = start(func() error {
			if err := retry(c.ctx, func() error { return targets[i].Raise(c.ctx, claims[i]) }); err != nil {
				return err
			}
			mark, err := targets[i].Read(c.ctx)
			if err == nil && mark.Token < claims[i].Token {
				err = fmt.Errorf("the mark is %v after the raise", mark)
			}
			return err
		})
	}
	greatest := int64(len(claims) - 1)
	winners := c.winners(claims, tasks, greatest)
	if len(winners) != 1 {
		c.fatalf("of two holders with token %d these have raised: %v", greatest, winners)
	}
	c.wantMark(targets[0], fencing.Mark(winners[0]))
	c.append(targets[0], winners[0], "w1")
	for _, cl := range claims {
		if cl != winners[0] {
			c.fenced("write by one that lost", targets[0], cl, winners[0], true)
		}
	}
	c.wantJournal(targets[0], "w1")
}

// winners are the claims of the greatest token that have raised. Every other
// raise was refused, or overtaken.
func (c *trial) winners(claims []fencing.Claim, tasks []*task, greatest int64) (winners []fencing.Claim) {
	for i, tk := range tasks {
		err := c.wait(tk)
		if err != nil && !errors.Is(err, fencing.ErrFenced) {
			c.errorf("raise to %v among others: %v", claims[i], err)
		}
		if err == nil && claims[i].Token == greatest {
			winners = append(winners, claims[i])
		}
	}
	return winners
}
