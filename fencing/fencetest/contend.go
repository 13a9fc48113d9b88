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

	"leasehold.dev/fencing"
)

// Options of a contended run.
type Options struct {
	Seed    uint64 // of the choices; the interleaving is the store's and the scheduler's
	Ops     int    // raises and writes, of all workers together
	Workers int    // goroutines that act at the same time
}

// Counts tell whether a run had in it what it is meant to test.
type Counts struct {
	Accepted, Refused, Retried int // writes
	Raised, Overtaken          int // raises, accepted and refused
}

// issuer of all claims of a run.
const issuer = "fencetest/contend"

// takeoverOdds, staleOdds and shareOdds are the choices of a worker, in percent
// of its turns: to take over, to go on with a claim that was refused, and to
// join the newest holder with another goroutine.
const (
	takeoverOdds = 12
	staleOdds    = 50
	shareOdds    = 45
)

// Contend arms the target and lets workers take the resource over from each
// other at random. A worker that has lost it often does not notice, and goes on
// writing with its old claim. The error is of the first operation that failed
// in a way that no run should.
func Contend(ctx context.Context, target Target, opts Options) (History, Counts, error) {
	if err := target.Arm(ctx, issuer); err != nil {
		return History{}, Counts{}, err
	}
	r := &run{target: target, history: History{Issuer: issuer}}
	r.left.Store(int64(opts.Ops))
	errs := make([]error, opts.Workers)
	var wg sync.WaitGroup
	for i := range opts.Workers {
		w := &worker{run: r, name: fmt.Sprintf("w%d", i), rng: rand.New(rand.NewPCG(opts.Seed, uint64(i)))}
		wg.Go(func() { errs[i] = w.work(ctx) })
	}
	wg.Wait()
	return r.history, r.counts, errors.Join(errs...)
}

// run is what the workers share.
type run struct {
	target Target
	left   atomic.Int64 // operations still to do
	tokens atomic.Int64 // the last token granted
	newest atomic.Pointer[fencing.Claim]

	mu      sync.Mutex
	history History
	counts  Counts
}

type worker struct {
	*run
	name   string
	rng    *rand.Rand
	claim  *fencing.Claim
	writes int
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
	if w.chance(shareOdds) && w.newest.Load() != nil {
		w.claim = w.newest.Load()
	}
	if w.claim == nil || w.chance(takeoverOdds) {
		return w.takeOver(ctx)
	}
	return w.write(ctx)
}

func (w *worker) takeOver(ctx context.Context) error {
	claim := fencing.Claim{Issuer: issuer, Token: w.tokens.Add(1), Holder: w.name}
	err := w.target.Raise(ctx, claim)
	switch {
	case errors.Is(err, fencing.ErrFenced): // a later grant raised first
		w.count(func(c *Counts) { c.Overtaken++ })
		w.claim = nil
		return nil
	case errors.Is(err, fencing.ErrRetry):
		return nil
	case err != nil:
		return err
	}
	journal, err := w.target.Journal(ctx)
	if err != nil {
		return err
	}
	w.claim = &claim
	w.newest.Store(&claim)
	w.count(func(c *Counts) { c.Raised++ })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history.Takeovers = append(w.history.Takeovers, Takeover{Claim: claim, Length: len(journal)})
	return nil
}

func (w *worker) write(ctx context.Context) error {
	w.writes++
	nonce := fmt.Sprintf("%s-%d", w.name, w.writes)
	err := w.target.Append(ctx, *w.claim, nonce)
	switch {
	case err == nil:
		w.count(func(c *Counts) { c.Accepted++ })
		w.note(&w.history.Accepted, nonce)
	case errors.Is(err, fencing.ErrFenced):
		w.count(func(c *Counts) { c.Refused++ })
		w.note(&w.history.Refused, nonce)
		if !w.chance(staleOdds) {
			w.claim = nil
		}
	case errors.Is(err, fencing.ErrRetry):
		w.count(func(c *Counts) { c.Retried++ })
		w.note(&w.history.Refused, nonce)
	default:
		return err
	}
	return nil
}

func (w *worker) note(list *[]string, nonce string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*list = append(*list, nonce)
}

func (w *worker) count(add func(*Counts)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	add(&w.counts)
}

func (w *worker) chance(percent int) bool { return w.rng.IntN(100) < percent }
