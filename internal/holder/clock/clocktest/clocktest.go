// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clocktest has a clock that a test moves.
package clocktest

import (
	"sync"
	"time"

	"leasehold.dev/internal/holder/clock"
)

// Clock stands still until it is moved.
type Clock struct {
	mu     sync.Mutex
	now    clock.Instant
	alarms map[*alarm]bool
}

// New returns a clock at some time.
func New() *Clock {
	return &Clock{now: clock.Instant{Elapsed: time.Hour, Wall: 1e6 * time.Hour}, alarms: map[*alarm]bool{}}
}

// Now returns the time.
func (c *Clock) Now() clock.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// NewAlarm returns a disarmed alarm.
func (c *Clock) NewAlarm() clock.Alarm {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &alarm{clock: c, c: make(chan struct{}, 1)}
	c.alarms[a] = true
	return a
}

// Advance moves both clocks, and wakes whom it has to.
func (c *Clock) Advance(d time.Duration) { c.Move(d, d) }

// Move moves the clocks by different amounts, as suspend, pauses and the
// setting of the wall clock do.
func (c *Clock) Move(elapsed, wall time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.Elapsed += elapsed
	c.now.Wall += wall
	for a := range c.alarms {
		a.look()
	}
}

// Armed is how many alarms wait for a deadline.
func (c *Clock) Armed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for a := range c.alarms {
		if !a.at.IsZero() {
			n++
		}
	}
	return n
}

type alarm struct {
	clock *Clock
	at    clock.Instant
	c     chan struct{}
}

func (a *alarm) C() <-chan struct{} { return a.c }

func (a *alarm) Set(at clock.Instant) {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	a.at = at
	a.look()
}

func (a *alarm) Stop() {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	delete(a.clock.alarms, a)
}

// look delivers a deadline that is reached; the caller holds the lock.
func (a *alarm) look() {
	if a.at.IsZero() || !a.at.Reached(a.clock.now) {
		return
	}
	a.at = clock.Instant{}
	select {
	case a.c <- struct{}{}:
	default:
	}
}
