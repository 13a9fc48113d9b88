// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"leasehold.dev/fencing"
)

// roundOps is how many operations make one round, on a resource of its own.
// Short rounds keep journals small and histories quick to check.
const roundOps = 1000

// The choices of a worker, in percent of its turns: to take over, to go on with
// a claim that was refused, to join the newest holder with another process, to
// be frozen at one of the next requests, and to lose its connection there.
const (
	takeoverOdds = 12
	staleOdds    = 50
	shareOdds    = 45
	freezeOdds   = 12
	breakOdds    = 5
	// faultDepth is up to which request of an operation a fault may come.
	faultDepth = 5
	// longestFreeze is one of a few hundred operations of the others.
	longestFreeze = 20 * time.Millisecond
)

// tally tells whether a run had in it what it is meant to test.
type tally struct {
	accepted, refused, retried, unknown int // writes
	raised, overtaken                   int // raises, accepted and refused
	frozen, broken                      int // faults
}

func (n *tally) add(m tally) {
	n.accepted += m.accepted
	n.refused += m.refused
	n.retried += m.retried
	n.unknown += m.unknown
	n.raised += m.raised
	n.overtaken += m.overtaken
	n.frozen += m.frozen
	n.broken += m.broken
}

func (n tally) String() string {
	return fmt.Sprintf("writes %d accepted, %d refused, %d to retry, %d unknown; raises %d accepted, %d refused; %d freezes, %d broken connections",
		n.accepted, n.refused, n.retried, n.unknown, n.raised, n.overtaken, n.frozen, n.broken)
}

// enough tells whether so much of each kind happened that so many operations
// mean something.
func (n tally) enough(ops int) bool {
	return n.accepted >= ops/50 && n.refused >= ops/50 && n.raised >= ops/50 && n.frozen >= ops/500
}

func contended(c *trial) {
	var total tally
	ops, wanted := 0, c.suite.Ops
	if c.naive {
		wanted = naiveOps
	}
	// Where a busy store makes many operations wait and retry, more are made.
	more := func() bool { return ops < wanted || (ops < 5*wanted && !total.enough(wanted)) }
	for round := uint64(0); more() && len(c.faults) == 0; round++ {
		total.add(c.round(round))
		ops += roundOps
	}
	c.note = fmt.Sprintf("%d operations by %d workers, seed %d: %v", ops, c.suite.Workers, c.suite.Seed, total)
	if len(c.faults) > 0 {
		return
	}
	if !total.enough(wanted) {
		c.t.Fatalf("too little happened to mean anything: %s", c.note)
	}
}

// round lets the workers loose on one resource.
func (c *trial) round(number uint64) tally {
	r := c.resource()
	end := c.client(r)
	c.must(end.Arm(c.ctx, issuer))
	s := &scene{breaks: r.Addr != "" && !c.naive, history: History{Issuer: issuer}}
	s.left.Store(roundOps)
	tasks := make([]*task, c.suite.Workers)
	for i := range tasks {
		target, trigger := c.faulty(r)
		w := &worker{
			scene: s, target: target, trigger: trigger, id: i, name: fmt.Sprintf("w%d", i),
			rng: rand.New(rand.NewPCG(c.suite.Seed, number<<16|uint64(i))), //nolint:gosec // Choices that a seed repeats.
		}
		tasks[i] = start(func() error { return w.work(c.ctx) })
	}
	for _, tk := range tasks {
		c.workerFailed(c.wait(tk))
	}
	journal := c.journal(end)
	s.recorder.do(len(tasks), call{kind: kindRead}, func() reply { return reply{seen: journal} })
	c.judge(end, s.history)
	if len(c.faults) == 0 { // else it is known to be wrong, and the search would be long
		if err := s.recorder.linearizable(issuer, journal); err != nil {
			c.errorf("%v", err)
		}
	}
	return s.tally
}

// workerFailed notes an answer that no worker should get, such as that its mark
// has gone back. An error without a class means that the round went wrong.
func (c *trial) workerFailed(err error) {
	for _, class := range []error{fencing.ErrNotRaised, fencing.ErrNotArmed, fencing.ErrForeign, fencing.ErrBehind} {
		if errors.Is(err, class) {
			c.errorf("%v", err)
			return
		}
	}
	c.must(err)
}

// scene is what the workers of a round share.
type scene struct {
	recorder recorder
	breaks   bool         // whether connections may break
	left     atomic.Int64 // operations still to do
	tokens   atomic.Int64 // the last token granted
	newest   atomic.Pointer[fencing.Claim]

	mu      sync.Mutex
	history History
	tally   tally
}

// worker is a process that takes the resource over from others, often does not
// notice that it has lost it, and goes on writing with its old claim.
type worker struct {
	*scene
	target  Target
	trigger *Trigger
	id      int
	name    string
	rng     *rand.Rand
	claim   *fencing.Claim
	writes  int
}

func (w *worker) work(ctx context.Context) error {
	for w.left.Add(-1) >= 0 {
		if err := w.turn(ctx); err != nil {
			return fmt.Errorf("worker %s: %w", w.name, err)
		}
	}
	return nil
}

func (w *worker) turn(ctx context.Context) error {
	if newest := w.newest.Load(); newest != nil && w.chance(shareOdds) {
		w.claim = newest
	}
	if w.claim == nil || w.chance(takeoverOdds) {
		return w.takeOver(ctx)
	}
	return w.write(ctx)
}

// takeOver raises until the answer is definite, and then reads.
func (w *worker) takeOver(ctx context.Context) error {
	claim := fencing.Claim{Issuer: issuer, Token: w.tokens.Add(1), Holder: w.name}
	var err error
	for again := true; again && ctx.Err() == nil; again = errors.Is(err, fencing.ErrRetry) {
		w.recorder.do(w.id, call{kind: kindRaise, claim: claim}, func() reply {
			broken := w.disturbed(func() { err = w.target.Raise(ctx, claim) })
			if broken && errors.Is(err, fencing.ErrRetry) {
				return reply{err: fencing.ErrUnknown} // a raise is repeated, done or not
			}
			return reply{err: err}
		})
	}
	switch {
	case errors.Is(err, fencing.ErrFenced): // a later grant raised first
		w.claim = nil
		w.count(func(n *tally) { n.overtaken++ })
		return nil
	case err != nil:
		return fmt.Errorf("raise: %w", err)
	}
	journal, err := w.read(ctx)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	w.claim = &claim
	w.newest.Store(&claim)
	w.count(func(n *tally) {
		n.raised++
		w.history.Takeovers = append(w.history.Takeovers, Takeover{Claim: claim, Length: len(journal)})
	})
	return nil
}

// read reads the journal. Where connections break, a client may find out only
// now that its last one is gone.
func (w *worker) read(ctx context.Context) (journal []Entry, err error) {
	w.recorder.do(w.id, call{kind: kindRead}, func() reply {
		for range faultDepth {
			if journal, err = w.target.Journal(ctx); err == nil || !w.breaks {
				break
			}
		}
		return reply{seen: journal}
	})
	return journal, err
}

func (w *worker) write(ctx context.Context) error {
	w.writes++
	nonce := fmt.Sprintf("%s-%d", w.name, w.writes)
	var err error
	w.recorder.do(w.id, call{kind: kindAppend, claim: *w.claim, nonce: nonce}, func() reply {
		w.disturbed(func() { err = w.target.Append(ctx, *w.claim, nonce) })
		return reply{err: err}
	})
	h := &w.history
	switch {
	case err == nil:
		w.count(func(n *tally) { n.accepted++; h.Accepted = append(h.Accepted, nonce) })
	case errors.Is(err, fencing.ErrFenced):
		w.count(func(n *tally) { n.refused++; h.Refused = append(h.Refused, nonce) })
		if !w.chance(staleOdds) {
			w.claim = nil
		}
	case errors.Is(err, fencing.ErrRetry):
		w.count(func(n *tally) { n.retried++; h.Refused = append(h.Refused, nonce) })
	case errors.Is(err, fencing.ErrUnknown):
		w.count(func(n *tally) { n.unknown++ })
	default:
		return fmt.Errorf("write: %w", err)
	}
	return nil
}

// disturbed runs an operation, at times with a fault in it, and tells whether
// the connection broke.
func (w *worker) disturbed(op func()) (broken bool) {
	freeze, brk := w.chance(freezeOdds), w.breaks && w.chance(breakOdds)
	at := 1 + w.rng.IntN(faultDepth)
	switch {
	case brk && w.chance(50):
		w.trigger.Arm(LoseRequest, at)
	case brk:
		w.trigger.Arm(LoseReply, at)
	case freeze:
		d := time.Duration(w.rng.Int64N(int64(longestFreeze)))
		w.trigger.arm(Freeze, at, func(thawed <-chan struct{}) { hold(d, thawed) })
	}
	op()
	if (brk || freeze) && w.trigger.Disarm() {
		w.count(func(n *tally) {
			if brk {
				n.broken++
			} else {
				n.frozen++
			}
		})
		return brk
	}
	return false
}

// hold is how long a process is frozen.
func hold(d time.Duration, thawed <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-thawed:
	}
}

func (w *worker) count(add func(*tally)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	add(&w.tally)
}

func (w *worker) chance(percent int) bool { return w.rng.IntN(100) < percent }
