// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"sync"
	"time"
)

// wallCheck is how often a portable alarm looks whether the wall clock jumped.
const wallCheck = time.Second

// Portable returns a clock made of what Go offers everywhere. Its timers stand
// still in suspend, so a deadline that passes meanwhile is noticed up to
// wallCheck after waking.
func Portable() Clock { return portable{start: time.Now()} }

type portable struct{ start time.Time }

func (p portable) Now() Instant {
	now := time.Now()
	// One more than zero, so that no reading is the zero Instant.
	return Instant{Elapsed: now.Sub(p.start) + 1, Wall: time.Duration(now.UnixNano())}
}

func (p portable) NewAlarm() Alarm {
	a := &portableAlarm{now: p.Now, c: make(chan struct{}, 1)}
	a.start()
	return a
}

type portableAlarm struct {
	now func() Instant
	c   chan struct{}

	mu    sync.Mutex
	at    Instant
	timer *time.Timer
}

func (a *portableAlarm) start() {
	a.timer = time.AfterFunc(time.Hour, a.look)
	a.timer.Stop()
}

func (a *portableAlarm) C() <-chan struct{} { return a.c }

func (a *portableAlarm) Set(at Instant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = at
	a.rearm()
}

func (a *portableAlarm) Stop() { a.Set(Instant{}) }

func (a *portableAlarm) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rearm()
}

// rearm delivers, or waits on; the caller holds mu.
func (a *portableAlarm) rearm() {
	a.timer.Stop()
	if a.at.IsZero() {
		return
	}
	now := a.now()
	if !a.at.Reached(now) {
		a.timer.Reset(min(a.at.Elapsed-now.Elapsed, a.at.Wall-now.Wall, wallCheck))
		return
	}
	a.at = Instant{}
	wake(a.c)
}

func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // One is waiting already.
	}
}
