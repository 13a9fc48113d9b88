// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/internal/holder/core"
	"leasehold.dev/leaderelect/lease"
)

var seeds = flag.Int("seeds", 300, "number of random runs")

// chaos drives a machine through random faults beside a manager that grants to
// others on release and on lapse, and checks after each step what must never
// happen:
//
//	work runs although another term was granted
//	work runs past the deadline although the machine was given a step
//	a token starts work twice
//	status 0 although the Lease never showed that the work released the term
type chaos struct {
	*world
	rng       *rand.Rand
	changedAt time.Duration // of the term's fields, on the world's clock
	print     string
	outcomes  map[int64]v1alpha1.Outcome
	endingAt  time.Duration // when killed or stopping work is really dead
	starts    map[int64]bool
	stale     []*coordinationv1.Lease
	restarts  int
	worked    int
}

func TestChaos(t *testing.T) {
	t.Parallel()
	terms := 0
	for seed := range *seeds {
		c := &chaos{rng: rand.New(rand.NewPCG(uint64(seed), 1)), starts: map[int64]bool{}, outcomes: map[int64]v1alpha1.Outcome{}}
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			c.world = newWorld(t, config())
			for range 400 {
				c.turn()
				c.check()
			}
		})
		terms += c.worked
		if t.Failed() {
			t.Fatalf("run again with -run TestChaos/seed=%d$", seed)
		}
	}
	if terms < *seeds {
		t.Errorf("only %d terms in %d runs: the chaos starves the agent, and proves nothing", terms, *seeds)
	}
}

func (c *chaos) chance(percent int) bool { return c.rng.IntN(100) < percent }

// turn lets one random thing happen.
func (c *chaos) turn() {
	if c.exited != nil {
		c.restart()
	}
	started := len(c.started)
	switch n := c.rng.IntN(100); {
	case n < 40:
		c.pass(time.Duration(c.rng.IntN(1500)) * time.Millisecond)
	case n < 65:
		c.reply()
	case n < 80:
		c.see()
	case n < 93:
		c.managerActs()
	case n < 95:
		c.somebodyMeddles()
	case n < 96:
		c.freeze()
	default:
		c.workActs()
	}
	if len(c.started) > started && c.exited == nil {
		c.worked++
		c.step(core.Started{})
	}
}

// pass moves time; work that was told to die is dead a tenth of a second later.
func (c *chaos) pass(d time.Duration) {
	for end := c.now.Elapsed + d; c.now.Elapsed < end && c.exited == nil; {
		c.advance(min(100*time.Millisecond, end-c.now.Elapsed))
		c.dies()
	}
}

func (c *chaos) dies() {
	if !c.running || c.kills == 0 {
		return
	}
	if c.endingAt == 0 {
		c.endingAt = c.now.Elapsed + 100*time.Millisecond
	}
	if c.now.Elapsed >= c.endingAt {
		c.finish(137)
	}
}

func (c *chaos) finish(code int) {
	c.kills, c.endingAt = 0, 0
	c.end(code)
}

func (c *chaos) restart() {
	c.restarts++
	c.exited, c.request, c.kills, c.endingAt = nil, nil, 0, 0
	from := origin()
	from.Ticks += uint64(c.restarts)
	c.m = core.New(core.Config{Holder: me, Origin: from, StopGrace: 5 * time.Second, ReleaseTimeout: 10 * time.Second,
		Jitter: func() float64 { return 0.5 + c.rng.Float64() },
		Random: func() string { c.nonces++; return fmt.Sprint("r", c.nonces) }})
	c.list()
}

func (c *chaos) reply() {
	if c.request == nil {
		return
	}
	switch {
	case c.chance(60):
		c.answer(c.request.Kind)
	case c.chance(50):
		c.drop(c.request.Kind, true)
	default:
		c.drop(c.request.Kind, false)
	}
	c.track()
}

// see delivers the newest state, or one of the past, as a watch may.
func (c *chaos) see() {
	if len(c.stale) > 0 && c.chance(30) {
		c.step(core.Seen{Lease: c.stale[c.rng.IntN(len(c.stale))]})
		return
	}
	c.watch()
}

func (c *chaos) managerActs() {
	r := c.record()
	lapsed := c.now.Elapsed-c.changedAt >= r.Longest
	to := other
	if c.chance(75) {
		to = me
	}
	switch {
	case r.Phase() == lease.Free || (lapsed && r.Phase() != lease.Granted):
		c.grant(to)
	case r.Phase() == lease.Granted && c.chance(20):
		c.manage(lease.Observation.Withdraw)
	case r.Phase() == lease.Live && c.chance(10):
		c.manage(lease.Observation.RequestEnd)
	}
	c.track()
}

func (c *chaos) somebodyMeddles() {
	c.edit(func(l *coordinationv1.Lease) { l.Labels["touched"] = fmt.Sprint(c.rng.Int()) })
	c.track()
}

// freeze stops agent and work together.
func (c *chaos) freeze() {
	c.now = c.now.Add(time.Duration(c.rng.IntN(20)) * time.Second)
	c.step(core.Tick{})
}

func (c *chaos) workActs() {
	switch {
	case c.chance(20):
		c.step(core.Signal{Number: syscall.SIGTERM})
	case c.running && c.chance(60):
		c.finish(c.rng.IntN(2) * 3)
	}
}

// track notes when the term's fields last changed.
func (c *chaos) track() {
	c.stale = append(c.stale, c.lease)
	if f := lease.Fingerprint(c.lease); f != c.print {
		c.print, c.changedAt = f, c.now.Elapsed
	}
	r := c.record()
	c.outcomes[r.Released] = r.Outcome
}

func (c *chaos) check() {
	c.t.Helper()
	c.dies()
	r := c.record()
	if c.running {
		claim := c.started[len(c.started)-1]
		frozen := c.kills > 0 // It was killed in the step that woke it.
		if (r.Token != claim.Token || !r.Open()) && !frozen {
			c.t.Fatalf("work of token %d runs, while the Lease says token %d of %s (released %d)", claim.Token, r.Token, r.GrantHolder, r.Released)
		}
		if c.kills == 0 && c.guard.Reached(c.now) {
			c.t.Fatalf("work runs past its deadline; said %q", c.said)
		}
	}
	for _, claim := range c.started[min(len(c.starts), len(c.started)):] {
		if c.starts[claim.Token] {
			c.t.Fatalf("token %d started work twice", claim.Token)
		}
		c.starts[claim.Token] = true
	}
	if c.exited != nil && *c.exited == 0 {
		last := c.started[len(c.started)-1].Token
		if o := c.outcomes[last]; o != v1alpha1.OutcomeSucceeded && o != v1alpha1.OutcomeStopped {
			c.t.Fatalf("status 0, and the outcome of token %d is %q; said %q", last, o, c.said)
		}
	}
}
