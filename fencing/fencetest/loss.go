// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencetest

import "leasehold.dev/fencing"

// markLost deletes the mark behind the adapter's back.
func markLost(c *trial) {
	a, b := c.pair()
	c.raise(a, claim(33))
	c.append(a, claim(33), "a1")
	c.must(need[MarkDropper](c, b).DropMark(c.ctx))
	for _, who := range []struct {
		target Target
		claim  fencing.Claim
	}{{a, claim(33)}, {b, claim(34)}} {
		c.refuse("write without a mark", fencing.ErrNotArmed, func() error { return who.target.Append(c.ctx, who.claim, "w") })
		c.refuse("raise without a mark", fencing.ErrNotArmed, func() error { return who.target.Raise(c.ctx, who.claim) })
	}
	c.refuse("read without a mark", fencing.ErrNotArmed, func() error { _, err := a.Read(c.ctx); return err })
	c.accept("arm", func() error { return b.Arm(c.ctx, issuer) })
	c.refuse("write under a mark that was armed anew", fencing.ErrNotRaised, func() error { return a.Append(c.ctx, claim(33), "w") })
	c.raise(b, claim(34))
	c.append(b, claim(34), "b1")
	c.fenced("write by an older token", a, claim(33), claim(34), true)
	c.wantJournal(b, "a1", "b1")
}

// restored puts the store back to before the last raise. That the old holder
// may write then cannot be helped by the store alone; that the new one finds
// out with its next write, and comes back by raising, can.
func restored(c *trial) {
	a, b := c.pair()
	c.raise(a, claim(33))
	c.append(a, claim(33), "a1")
	restore, err := need[Restorer](c, b).Snapshot(c.ctx)
	c.must(err)
	c.raise(b, claim(34))
	c.append(b, claim(34), "b1")
	c.must(restore(c.ctx))
	c.refuse("write after the raise was lost", fencing.ErrNotRaised, func() error { return b.Append(c.ctx, claim(34), "w") })
	c.raise(b, claim(34))
	c.fenced("write by an older token", a, claim(33), claim(34), true)
	c.append(b, claim(34), "b2")
	c.wantJournal(b, "a1", "b2")
	c.wantMark(b, fencing.Mark(claim(34)))
}

// deleted deletes the data, which a stale writer then tries to create anew.
func deleted(c *trial) {
	a, b := c.pair()
	c.raise(a, claim(33))
	c.append(a, claim(33), "a1")
	c.raise(b, claim(34))
	remover := need[Remover](c, b)
	c.refuse("removal by an older token", fencing.ErrFenced, func() error { return need[Remover](c, a).Remove(c.ctx, claim(33)) })
	c.accept("removal", func() error { return remover.Remove(c.ctx, claim(34)) })
	c.fenced("write to what was deleted", a, claim(33), claim(34), true)
	c.wantJournal(b)
	c.append(b, claim(34), "b1")
	c.fenced("write to what was created anew", a, claim(33), claim(34), true)
	c.wantJournal(b, "b1")
}
