// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"leasehold.dev/fencing"
)

func arm(c *trial) {
	r := c.resource()
	a, b := c.client(r), c.client(r)
	refused := func(what string) {
		c.refuse("raise "+what, fencing.ErrNotArmed, func() error { return a.Raise(c.ctx, claim(33)) })
		c.refuse("write "+what, fencing.ErrNotArmed, func() error { return a.Append(c.ctx, claim(33), "w") })
		c.refuse("read "+what, fencing.ErrNotArmed, func() error { _, err := a.Read(c.ctx); return err })
		c.refuse("adopt "+what, fencing.ErrNotArmed, func() error { return a.Adopt(c.ctx, issuer, "fencetest/b/lease") })
	}
	refused("without a mark")
	c.accept("arm", func() error { return a.Arm(c.ctx, issuer) })
	c.wantMark(b, fencing.Mark{Issuer: issuer})
	c.accept("arm", func() error { return b.Arm(c.ctx, issuer) })
	c.raise(a, claim(33))
	c.accept("arm", func() error { return b.Arm(c.ctx, issuer) })
	c.wantMark(b, fencing.Mark(claim(33))) // arming again changes nothing
	c.refuse("arm for another issuer", fencing.ErrForeign, func() error { return b.Arm(c.ctx, "fencetest/b/lease") })
	c.refuse("arm for no issuer", fencing.ErrInvalidClaim, func() error { return b.Arm(c.ctx, "") })
	c.wantMark(b, fencing.Mark(claim(33)))
	c.wantJournal(b)
}

func raise(c *trial) {
	a, b := c.pair()
	c.raise(a, claim(33))
	c.raise(a, claim(33)) // again
	c.raise(b, claim(33)) // another process of the same holder
	c.fenced("raise an older token", b, claim(32), claim(33), false)
	again := claim(40)
	again.Holder = claim(33).Holder // another term of the same holder
	c.raise(b, again)
	c.fenced("raise the older term of the same holder", a, claim(33), again, false)
	c.wantMark(a, fencing.Mark(again))
}

func write(c *trial) {
	a, b := c.pair()
	c.raise(a, claim(33))
	c.append(a, claim(33), "a1")
	c.append(a, claim(33), "a2")
	c.raise(b, claim(34))
	c.append(b, claim(34), "b1")
	c.fenced("write by an older token", a, claim(33), claim(34), true)
	c.append(b, claim(34), "b2")
	c.fenced("write by an older token", a, claim(33), claim(34), true)
	want := []Entry{{33, "pod-33", "a1"}, {33, "pod-33", "a2"}, {34, "pod-34", "b1"}, {34, "pod-34", "b2"}}
	if got := c.journal(a); fmt.Sprint(got) != fmt.Sprint(want) {
		c.errorf("the journal has %v, want %v", got, want)
	}
}

func notRaised(c *trial) {
	a, b := c.pair()
	c.refuse("write before the first raise", fencing.ErrNotRaised, func() error { return a.Append(c.ctx, claim(33), "w") })
	c.raise(a, claim(33))
	c.refuse("write above the mark", fencing.ErrNotRaised, func() error { return b.Append(c.ctx, claim(34), "w") })
	c.append(a, claim(33), "a1") // the attempt did not raise the mark either
	c.wantJournal(b, "a1")
	c.wantMark(b, fencing.Mark(claim(33)))
}

func collision(c *trial) {
	a, b := c.pair()
	other := fencing.Claim{Issuer: issuer, Token: 33, Holder: "pod-33-of-another-cluster-state"}
	c.raise(a, claim(33))
	for what, do := range map[string]func() error{
		"raise": func() error { return b.Raise(c.ctx, other) },
		"write": func() error { return b.Append(c.ctx, other, "w") },
	} {
		err := c.refusal(what+" with the holder's token", fencing.ErrFenced, do)
		if fenced, ok := errors.AsType[*fencing.FencedError](err); !ok || !fenced.Collision() {
			c.errorf("%s with the holder's token: %v, want a FencedError that is a Collision", what, err)
		}
	}
	c.append(a, claim(33), "a1")
	c.wantJournal(b, "a1")
}

func issuers(c *trial) {
	a, b := c.pair()
	const second, third = "fencetest/b/lease", "fencetest/c/lease"
	foreign := fencing.Claim{Issuer: second, Token: 5, Holder: "pod-b"}
	c.raise(a, claim(33))
	c.append(a, claim(33), "a1")
	refused := func(what string, target Target, claim fencing.Claim) {
		c.refuse("raise by "+what, fencing.ErrForeign, func() error { return target.Raise(c.ctx, claim) })
		c.refuse("write by "+what, fencing.ErrForeign, func() error { return target.Append(c.ctx, claim, "w") })
	}
	refused("another issuer", b, foreign)
	high := foreign
	high.Token = 99
	refused("another issuer with a greater token", b, high)
	c.refuse("adopt from an issuer that does not have it", fencing.ErrForeign, func() error { return b.Adopt(c.ctx, third, second) })
	c.accept("adopt", func() error { return b.Adopt(c.ctx, issuer, second) })
	c.accept("adopt", func() error { return b.Adopt(c.ctx, issuer, second) }) // again
	refused("the issuer before", a, claim(33))
	refused("the issuer before, with a greater token", a, claim(99))
	c.refuse("write before a raise", fencing.ErrNotRaised, func() error { return b.Append(c.ctx, foreign, "w") })
	c.raise(b, foreign)
	c.append(b, foreign, "b1")
	c.accept("adopt", func() error { return a.Adopt(c.ctx, second, issuer) })
	c.wantMark(a, fencing.Mark{Issuer: issuer, Token: 33})
	c.refuse("raise of the old token after coming back", fencing.ErrFenced, func() error { return a.Raise(c.ctx, claim(33)) })
	c.refuse("write of the old token after coming back", fencing.ErrFenced, func() error { return a.Append(c.ctx, claim(33), "w") })
	c.raise(a, claim(34))
	c.append(a, claim(34), "a2")
	refused("the issuer in between", b, foreign)
	c.wantJournal(a, "a1", "b1", "a2")
}

func behind(c *trial) {
	a, b := c.pair()
	c.raise(b, claim(34))
	for what, do := range map[string]func() error{
		"raise": func() error { return a.Raise(c.ctx, claim(33)) },
		"write": func() error { return a.Append(c.ctx, claim(33), "w") },
	} {
		refusal := retry(c.ctx, do)
		err := fencing.ConfirmBehind(c.ctx, refusal, func(context.Context) error { return nil })
		report, ok := errors.AsType[*fencing.BehindError](err)
		if !ok || report.Mine != claim(33) || report.Newest != fencing.Mark(claim(34)) {
			c.errorf("%s by a holder that still has its lease: %v, want a BehindError of token 33 and the mark at 34", what, err)
		}
	}
}

// numbers has pairs that sort the other way as text, or that are one as
// floating point.
func numbers(c *trial) {
	for _, p := range [][2]int64{
		{1, 2}, {9, 10}, {99, 100}, {255, 256}, {1<<32 - 1, 1 << 32}, {1<<53 - 1, 1 << 53}, {1 << 53, 1<<53 + 1},
		{1<<53 + 1, 1<<53 + 2}, {999_999_999_999_999_999, 1_000_000_000_000_000_000}, {fencing.MaxToken - 1, fencing.MaxToken},
	} {
		low, high := fencing.Claim{Issuer: issuer, Token: p[0], Holder: "pod"}, fencing.Claim{Issuer: issuer, Token: p[1], Holder: "pod"}
		a, b := c.pair()
		c.raise(a, low)
		c.append(a, low, "a1")
		c.refuse("write above the mark", fencing.ErrNotRaised, func() error { return b.Append(c.ctx, high, "w") })
		c.raise(b, high)
		c.wantMark(a, fencing.Mark(high))
		c.fenced("write by an older token", a, low, high, true)
		c.fenced("raise an older token", a, low, high, false)
		c.append(b, high, "b1")
		c.wantJournal(b, "a1", "b1")
	}
}

func names(c *trial) {
	for _, holder := range []string{
		`'`, `"`, `\`, `%s`, `$1`, `{}`, `a/b`, `a:b`, `a|b`, `a,b`, `a;b`, `a--b`, `a#b?c=d&e`, `*`, `..`, `~`, `<x>`, "[`x`]",
		strings.Repeat("h", 512),
	} {
		first := fencing.Claim{Issuer: "i" + holder[:min(len(holder), 511)], Token: 33, Holder: holder}
		second := first
		second.Token, second.Holder = 34, holder[:len(holder)-1]+"z"
		a := c.client(c.resource())
		c.must(a.Arm(c.ctx, first.Issuer))
		c.raise(a, first)
		c.append(a, first, "a1")
		c.wantMark(a, fencing.Mark(first))
		c.refuse("write by another holder", fencing.ErrFenced, func() error {
			return a.Append(c.ctx, fencing.Claim{Issuer: first.Issuer, Token: 33, Holder: second.Holder}, "w")
		})
		c.raise(a, second)
		c.fenced("write by an older token", a, first, second, true)
		if got := c.journal(a); len(got) != 1 || got[0] != (Entry{33, holder, "a1"}) {
			c.errorf("the journal has %v, want one entry by %q", got, holder)
		}
	}
}

func omitted(c *trial) {
	a, b := c.pair()
	complete := claim(33)
	invalid := func(what string) {
		for name, edit := range map[string]func(*fencing.Claim){
			"zero claim":          func(m *fencing.Claim) { *m = fencing.Claim{} },
			"no token":            func(m *fencing.Claim) { m.Token = 0 },
			"no token, no holder": func(m *fencing.Claim) { m.Token, m.Holder = 0, "" },
			"negative token":      func(m *fencing.Claim) { m.Token = -1 },
			"token above 2^62":    func(m *fencing.Claim) { m.Token = fencing.MaxToken + 1 },
			"no holder":           func(m *fencing.Claim) { m.Holder = "" },
			"no issuer":           func(m *fencing.Claim) { m.Issuer = "" },
			"line break":          func(m *fencing.Claim) { m.Holder = "a\r\nb" },
		} {
			m := complete
			edit(&m)
			c.refuse(name+": write "+what, fencing.ErrInvalidClaim, func() error { return a.Append(c.ctx, m, "w") })
			c.refuse(name+": raise "+what, fencing.ErrInvalidClaim, func() error { return a.Raise(c.ctx, m) })
		}
	}
	invalid("on a mark that nobody has raised")
	c.raise(b, complete)
	invalid("on the holder's mark")
	c.append(b, complete, "b1")
	if bare, ok := b.(Bare); ok {
		if err := bare.AppendBare(c.ctx, "bare"); err == nil {
			c.errorf("a write without a claim was accepted")
		}
		c.note = "also by the store itself"
	}
	c.wantJournal(b, "b1")
	c.wantMark(b, fencing.Mark(complete))
}

// readBeforeRaise also shows the mistake that gives it its name: what was read
// before the raise misses a write that the resource has accepted.
func readBeforeRaise(c *trial) {
	a, b := c.pair()
	c.raise(a, claim(33))
	c.append(a, claim(33), "a1")
	early := c.journal(b)
	c.append(a, claim(33), "a2")
	c.raise(b, claim(34))
	if seen := c.journal(b); len(early) != 1 || len(seen) != 2 {
		c.errorf("%d entries before the raise and %d after it, want 1 and 2", len(early), len(seen))
	}
	c.fenced("write by an older token", a, claim(33), claim(34), true)
	c.append(b, claim(34), "b1")
	c.wantJournal(a, "a1", "a2", "b1")
}

// fenced expects a raise, or a write, to be refused by the mark with all that
// it knows.
func (c *trial) fenced(what string, target Target, mine, newest fencing.Claim, writes bool) {
	c.t.Helper()
	err := c.refusal(what, fencing.ErrFenced, func() error {
		if writes {
			return target.Append(c.ctx, mine, "fenced")
		}
		return target.Raise(c.ctx, mine)
	})
	want := fencing.FencedError{Mine: mine, Newest: fencing.Mark(newest)}
	if got, ok := errors.AsType[*fencing.FencedError](err); ok && *got != want {
		c.errorf("%s: the error has %v and %v, want %v and %v", what, got.Mine, got.Newest, want.Mine, want.Newest)
	}
}
