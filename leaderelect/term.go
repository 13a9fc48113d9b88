// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderelect

import (
	"context"
	"errors"
	"sync"
	"time"

	"leasehold.dev/fencing"
	"leasehold.dev/internal/holder/clock"
)

// Term is one term of holding a lease. Its methods may be called from any
// goroutine, also after it has ended.
type Term struct {
	claim    fencing.Claim
	clock    clock.Clock
	sections *sections
	// ctx is the function's context.
	ctx     context.Context
	cancel  context.CancelCauseFunc
	overrun func()

	mu sync.Mutex
	// until is when the trust ends, unless the term is renewed; zero: it has.
	until clock.Instant
	// err is why the term has ended, or is to end; done: it has, for good.
	err  error
	done bool
	// returned: the function has.
	returned bool
}

// Claim is what the holder shows to a protected resource with every write (see
// package fencing). It stays the same for the whole term.
func (t *Term) Claim() fencing.Claim { return t.claim }

// Valid reports whether the term can still be trusted at this moment: no other
// candidate has been granted the lease, nor can be before Deadline. It reads the
// clock, so that a process that was frozen past its lease gets false from its
// first call. The answer may be outdated when it is used; only a resource that
// checks the claim closes that gap.
func (t *Term) Valid() bool {
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.valid(now)
}

func (t *Term) valid(now clock.Instant) bool { return !t.until.IsZero() && !t.until.Reached(now) }

// Deadline is when the trust in the term ends unless it is renewed before; the
// zero time: it has ended. Each renewal moves it. The context given to the
// function is cancelled earlier, to leave time to return.
func (t *Term) Deadline() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.until.IsZero() {
		return time.Time{}
	}
	return t.until.Time()
}

// Err is why the term has ended or is to end: an error that wraps ErrLost,
// ErrEndRequested, the cause of the end of Run's context, or ErrReturned. It is
// nil while nothing asks the function to return.
func (t *Term) Err() error {
	now := t.clock.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil && !t.valid(now) {
		return lost(errDeadline) // Seen before whoever ends it has.
	}
	return t.err
}

// Section runs a critical section, and measures how long it takes. It returns
// the term's error, without calling the function, unless the term is valid; the
// function's error; or, where the function succeeded but the term ended
// meanwhile, the term's error. ctx is also cancelled when the term's function
// has to return.
//
// The 99th percentile of the sections' durations goes onto the Lease with the
// next renewal: a duration of 3 to 10 times that leaves a section that starts
// late the time to end.
func (t *Term) Section(ctx context.Context, f func(ctx context.Context) error) error {
	if !t.Valid() {
		return t.ended()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })()
	began := t.clock.Now()
	defer func() { t.sections.add(t.clock.Now().Since(began)) }()
	if err := f(ctx); err != nil {
		return err
	}
	if !t.Valid() {
		return t.ended()
	}
	return nil
}

// ended is Err of a term that is not valid.
func (t *Term) ended() error {
	if err := t.Err(); err != nil {
		return err
	}
	return lost(errDeadline) // It was valid again when it was asked why not.
}

// trust sets how long the term may be trusted. A lost one is not revived.
func (t *Term) trust(until clock.Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.done {
		t.until = until
	}
}

// stop asks the function to return. The first cause stands.
func (t *Term) stop(cause error) {
	t.mu.Lock()
	if t.err == nil {
		t.err = cause
	}
	if errors.Is(cause, ErrLost) {
		t.err, t.done, t.until = cause, true, clock.Instant{}
	}
	t.mu.Unlock()
	t.cancel(cause)
}

// guard is called when the function has to have returned, on a goroutine that
// nothing holds up. Whoever asks it to do so may be held up.
func (t *Term) guard() {
	t.mu.Lock()
	asked := t.err != nil
	t.mu.Unlock()
	if !asked {
		t.stop(lost(errDeadline))
	}
	t.overrun()
}

// over notes that the function has returned.
func (t *Term) over() {
	t.mu.Lock()
	if t.err == nil {
		t.err = ErrReturned
	}
	t.done, t.returned, t.until = true, true, clock.Instant{}
	t.mu.Unlock()
	t.cancel(ErrReturned)
}

func (t *Term) isOver() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.returned
}
