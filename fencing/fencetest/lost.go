// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"errors"
	"fmt"

	"leasehold.dev/fencing"
)

// lostWrite breaks the connection at each request of a write. Whether it was
// done is looked up after a raise above it, from when on it cannot be done any
// more.
func lostWrite(c *trial) {
	var done, unknown int
	c.sweep(func(f Fault, n int) bool {
		r := c.resource()
		old, trigger := c.faulty(r)
		cur := c.client(r)
		c.must(cur.Arm(c.ctx, issuer))
		c.raise(old, claim(33))
		c.append(old, claim(33), "warm-up")
		trigger.Arm(f, n)
		err := old.Append(c.ctx, claim(33), "lost")
		hit := trigger.Disarm()
		c.raise(cur, claim(34))
		times := c.times(cur, "lost")
		c.judgeLost(fmt.Sprintf("%v of request %d: error %v", f, n, err), err, times)
		if errors.Is(err, fencing.ErrUnknown) {
			unknown++
		}
		if hit && f == LoseReply && times > 0 {
			done++
		}
		c.append(cur, claim(34), "new")
		c.fenced("write after the connection was lost", old, claim(33), claim(34), true)
		return hit
	})
	if done == 0 {
		c.t.Fatal("no reply was lost after the write was done, so the case shows nothing")
	}
	c.note = fmt.Sprintf("%d faults, %d after the write was done, %d said to be unknown", c.tried, done, unknown)
}

// judgeLost compares what was said of a write with how often it was done.
func (c *trial) judgeLost(what string, err error, times int) {
	switch {
	case times > 1:
		c.errorf("%s: the write was done %d times", what, times)
	case err == nil && times == 0:
		c.errorf("%s: the write was acknowledged and not done", what)
	case err != nil && !errors.Is(err, fencing.ErrUnknown) && times == 1:
		c.errorf("%s: the write was done; only %q may be said of it", what, fencing.ErrUnknown)
	}
}

// times is how often a write is in the journal.
func (c *trial) times(target Target, nonce string) (times int) {
	for _, e := range c.journal(target) {
		if e.Nonce == nonce {
			times++
		}
	}
	return times
}

// lostRaise breaks it at each request of a raise, which is then repeated.
func lostRaise(c *trial) {
	c.sweep(func(f Fault, n int) bool {
		r := c.resource()
		holder, trigger := c.faulty(r)
		cur := c.client(r)
		c.must(cur.Arm(c.ctx, issuer))
		c.raise(holder, claim(33))
		c.append(holder, claim(33), "warm-up")
		trigger.Arm(f, n)
		err := holder.Raise(c.ctx, claim(34))
		hit := trigger.Disarm()
		if err != nil && !errors.Is(err, fencing.ErrRetry) {
			c.errorf("%v of request %d: %v, want %q, since a raise can be repeated", f, n, err, fencing.ErrRetry)
		}
		if mark, readErr := cur.Read(c.ctx); err == nil && mark != fencing.Mark(claim(34)) {
			c.errorf("%v of request %d: the raise was acknowledged, and the mark is %v (error %v)", f, n, mark, readErr)
		}
		c.raise(holder, claim(34))
		c.wantMark(cur, fencing.Mark(claim(34)))
		c.append(holder, claim(34), "new")
		c.wantJournal(cur, "warm-up", "new")
		return hit
	})
	c.note = fmt.Sprintf("%d faults", c.tried)
}

// sweep makes each fault at the first request of an operation, at the second,
// and so on until it has no more.
func (c *trial) sweep(try func(f Fault, n int) (hit bool)) {
	c.t.Helper()
	if c.suite.Store == "" {
		c.t.Fatal("there is no connection to break: give Suite.Store, or the reason in Suite.Without")
	}
	for _, f := range []Fault{LoseRequest, LoseReply} {
		n := 1
		for ; n <= maxRequests && try(f, n); n++ {
			c.tried++
		}
		if n == 1 || n > maxRequests {
			c.t.Fatalf("%v: %d requests seen, want 1 to %d", f, n-1, maxRequests)
		}
	}
}
