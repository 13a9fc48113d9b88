// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/internal/holder/clock"
	"leasehold.dev/internal/holder/core"
	"leasehold.dev/leaderelect/lease"
)

// contest is several machines that compete for one Lease: late and lost
// requests, replies and watch events, clocks that run at different rates and are
// set, freezes, crashes, and people who delete, wipe and edit the Lease.
//
// After every step it must hold that no two trust a term at once (S2), that work
// of a machine that is given its steps does not outlive the trust (S3), that
// tokens rise (S1), and that none starts work twice (S8).
type contest struct {
	rng     *rand.Rand
	faults  faults
	now     time.Duration
	version int64
	lease   *coordinationv1.Lease
	all     []*candidate
	wire    []due // requests on their way
	token   int64
	terms   int
	broken  error
}

// faults says what may happen, and what naive variant is on trial.
type faults struct {
	deletes bool
	fresh   bool
	// rate is the greatest deviation of a clock from true time.
	rate float64
}

type candidate struct {
	c      *contest
	name   string
	m      *core.Machine
	life   int
	rate   float64
	wall   time.Duration // what the wall clock was set by
	frozen time.Duration // until when
	events []due         // in order of delivery, except watch events among others

	running bool
	ends    time.Duration // when stopping work is gone; zero: it goes on
	trusted clock.Instant
}

type due struct {
	at time.Duration
	do func()
}

const step = 50 * time.Millisecond

func newContestOf(n int, seed uint64, f faults) *contest {
	c := &contest{rng: rand.New(rand.NewPCG(seed, 7)), faults: f, now: time.Hour, version: 100}
	for i := range n {
		a := &candidate{c: c, name: fmt.Sprint("c", i), rate: 1 + f.rate*(2*c.rng.Float64()-1)}
		c.all = append(c.all, a)
		a.boot()
	}
	return c
}

func (c *contest) chance(perMille int) bool { return c.rng.IntN(1000) < perMille }

func (c *contest) within(d time.Duration) time.Duration { return time.Duration(c.rng.Int64N(int64(d))) }

// boot starts the candidate's process anew; what was under way is lost to it.
func (a *candidate) boot() {
	a.life++
	life := fmt.Sprint(a.name, "-", a.life)
	random := 0
	a.m = core.New(core.Config{
		Holder: life, Origin: lease.Nonce{Container: "c", Boot: life, Ticks: 1},
		Random:    func() string { random++; return strconv.Itoa(random) },
		Jitter:    func() float64 { return 0.5 + a.c.rng.Float64() },
		StopGrace: 10 * time.Second, ReleaseTimeout: 10 * time.Second, Loop: true,
		Compete: &core.Compete{Namespace: "ns", Name: "lease", Issuer: issuer, Timing: competing, Fresh: a.c.faults.fresh},
	})
	a.events, a.running, a.trusted, a.ends = nil, false, clock.Instant{}, 0
	a.after(a.c.within(time.Second), func() { a.list() })
}

func (a *candidate) clock() clock.Instant {
	e := time.Duration(float64(a.c.now) * a.rate)
	return clock.Instant{Elapsed: e, Wall: 1e6*time.Hour + e + a.wall}
}

func (a *candidate) after(d time.Duration, do func()) {
	a.events = append(a.events, due{a.c.now + d, do})
}

func (a *candidate) list() {
	l, asked := a.c.lease, a.clock()
	a.after(a.c.within(300*time.Millisecond), func() { a.feed(core.Seen{Lease: l, Live: true, Asked: asked}) })
}

func (a *candidate) feed(ev core.Event) {
	for _, action := range a.m.Step(a.clock(), ev) {
		a.do(action)
	}
	a.trusted = a.m.Trusted()
}

func (a *candidate) do(action core.Action) {
	switch action := action.(type) {
	case core.Send:
		a.send(action)
	case core.Start:
		a.c.starts(action.Claim)
		a.running, a.ends = true, 0
		a.after(0, func() { a.feed(core.Started{}) })
	case core.Forward:
		a.endsIn(a.c.within(2 * time.Second))
	case core.Kill:
		a.endsIn(step)
	case core.Exit:
		a.after(a.c.within(5*time.Second), a.boot)
	}
}

func (a *candidate) endsIn(d time.Duration) {
	if at := a.c.now + d; a.running && (a.ends == 0 || at < a.ends) {
		a.ends = at
	}
}

// send carries the request to the store and back, late, or loses it on either
// way. It may be applied after its sender gave up.
func (a *candidate) send(s core.Send) {
	answered, sender := false, a.m
	answer := func(r core.Reply) {
		if !answered && a.m == sender {
			answered = true
			a.feed(r)
		}
	}
	unknown := func() { answer(core.Reply{Failure: core.Unknown, Err: errLost}) }
	there, back := a.c.within(100*time.Millisecond), a.c.within(100*time.Millisecond)
	if a.c.chance(150) {
		there = a.c.within(4 * time.Second)
	}
	if a.c.chance(150) {
		back = a.c.within(4 * time.Second)
	}
	a.after(s.Timeout, unknown)
	if a.c.chance(80) {
		return
	}
	lost := a.c.chance(80)
	a.c.later(there, func() {
		reply := a.c.apply(s)
		if !lost && a.m == sender {
			a.after(back, func() { answer(reply) })
		}
	})
}

// later happens whether the sender is frozen or not.
func (c *contest) later(d time.Duration, do func()) {
	c.wire = append(c.wire, due{c.now + d, do})
}

func (c *contest) apply(s core.Send) core.Reply {
	l := c.lease
	switch {
	case s.Kind == core.Create && l != nil:
		return core.Reply{Failure: core.Conflict, Err: errors.New("already exists")}
	case s.Kind == core.Create:
		made := s.Lease.DeepCopy()
		made.UID = types.UID(fmt.Sprint("uid-", c.version))
		return core.Reply{Lease: c.write(made)}
	case l == nil:
		return core.Reply{Failure: core.Absent, Err: errors.New("not found")}
	case s.Kind == core.Read:
		return core.Reply{Lease: l}
	case s.Lease.UID != l.UID || s.Lease.ResourceVersion != l.ResourceVersion:
		return core.Reply{Failure: core.Conflict, Err: errors.New("conflict")}
	}
	return core.Reply{Lease: c.write(s.Lease)}
}

func (c *contest) write(l *coordinationv1.Lease) *coordinationv1.Lease {
	c.version++
	c.lease = l.DeepCopy()
	c.lease.ResourceVersion = strconv.FormatInt(c.version, 10)
	seen := core.Seen{Lease: c.lease}
	c.tell(seen)
	return c.lease
}

// tell sends a watch event to all. Watches are late, and some events come only
// with the list after the watch was broken.
func (c *contest) tell(ev core.Seen) {
	for _, a := range c.all {
		d := c.within(200 * time.Millisecond)
		if c.chance(100) {
			d = c.within(8 * time.Second)
		}
		if !c.chance(50) {
			a.after(d, func() { a.feed(ev) })
		} else {
			a.after(d, a.list)
		}
	}
}

func (c *contest) starts(claim core.Claim) {
	c.terms++
	if claim.Token <= c.token {
		c.breaks("work started with token %d after %d", claim.Token, c.token)
	}
	c.token = claim.Token
}

func (c *contest) breaks(format string, args ...any) {
	if c.broken == nil {
		c.broken = fmt.Errorf("after %s: "+format, append([]any{c.now - time.Hour}, args...)...)
	}
}

// deliver runs what is due, and returns the rest.
func deliver(now time.Duration, all []due) (rest, ready []due) {
	for _, d := range all {
		if d.at <= now {
			ready = append(ready, d)
		} else {
			rest = append(rest, d)
		}
	}
	return rest, ready
}

func (c *contest) run(d time.Duration) {
	for end := c.now + d; c.now < end && c.broken == nil; c.now += step {
		var ready []due
		c.wire, ready = deliver(c.now, c.wire)
		for _, d := range ready {
			d.do()
		}
		for _, a := range c.all {
			a.turn()
		}
		c.check()
		c.meddle()
	}
}

func (a *candidate) turn() {
	if a.frozen > a.c.now {
		return
	}
	if wake := a.m.NextWake(); !wake.IsZero() && wake.Reached(a.clock()) {
		a.feed(core.Tick{}) // The alarm fires first after a freeze.
	}
	var ready []due
	a.events, ready = deliver(a.c.now, a.events)
	for _, d := range ready {
		d.do()
	}
	if a.running && a.ends > 0 && a.ends <= a.c.now {
		a.running = false
		a.feed(core.Ended{Code: a.c.rng.IntN(2)})
		a.feed(core.Gone{})
	}
}

// meddle lets something happen to a candidate or to the Lease.
func (c *contest) meddle() {
	a := c.all[c.rng.IntN(len(c.all))]
	switch n := c.rng.IntN(4000); {
	case n < 3:
		a.boot() // It crashed.
	case n < 9:
		a.frozen = c.now + c.within(30*time.Second)
	case n < 12:
		a.wall += c.within(time.Minute) - 30*time.Second
	case n < 18 && a.running:
		a.endsIn(c.within(time.Second)) // The work ends by itself.
	case n < 20:
		a.feed(core.Signal{Number: syscall.SIGTERM})
	case n < 30 && c.lease != nil:
		c.edit(func(l *coordinationv1.Lease) { l.Labels["touched"] = fmt.Sprint(c.rng.Int()) })
	case n < 32 && c.lease != nil:
		c.edit(func(l *coordinationv1.Lease) { none := ""; l.Spec.HolderIdentity = &none })
	case n < 34 && c.lease != nil && c.faults.deletes:
		c.version++
		c.lease = nil
		c.tell(core.Seen{Version: strconv.FormatInt(c.version, 10)})
	}
}

func (c *contest) edit(f func(l *coordinationv1.Lease)) {
	l := c.lease.DeepCopy()
	f(l)
	c.write(l)
}

func (c *contest) check() {
	trusting := ""
	for _, a := range c.all {
		valid := !a.trusted.IsZero() && !a.trusted.Reached(a.clock())
		if valid && trusting != "" {
			c.breaks("%s and %s trust a term at once", trusting, a.name)
		}
		if valid {
			trusting = a.name
		}
		if a.running && !valid && a.ends == 0 && a.frozen <= c.now {
			c.breaks("the work of %s goes on though its term is over", a.name)
		}
	}
}

// TestRivals: see contest.
func TestRivals(t *testing.T) {
	t.Parallel()
	terms := 0
	for seed := range *seeds / 3 {
		c := newContestOf(3, uint64(seed), faults{deletes: true, rate: 0.05})
		c.run(10 * time.Minute)
		if c.broken != nil {
			t.Errorf("seed %d: %v", seed, c.broken)
		}
		terms += c.terms
	}
	if terms < 5**seeds/3 {
		t.Errorf("only %d terms in %d runs: the faults starve the candidates, and prove nothing", terms, *seeds/3)
	}
	t.Logf("%d terms in %d runs", terms, *seeds/3)
}

// TestRivalsFindsWhatIsWrong: the same contest must catch naive variants.
func TestRivalsFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]faults{
		"a new Lease is taken for a free one": {deletes: true, fresh: true, rate: 0.05},
		"clocks worse than the margin":        {rate: 0.4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range max(*seeds, 300) {
				c := newContestOf(3, uint64(seed), f)
				if c.run(10 * time.Minute); c.broken != nil {
					t.Logf("seed %d: %v", seed, c.broken)
					return
				}
			}
			t.Errorf("%d runs found nothing", *seeds)
		})
	}
}
