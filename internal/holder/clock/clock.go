// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clock measures the agent's deadlines on clocks that run while the
// machine is suspended, and wakes it when they are reached.
package clock

import "time"

// Instant is one reading of two clocks of this machine. Elapsed runs through
// suspend, but stands still while a virtual machine is paused; the wall clock is
// set right after such a pause. Either may be behind, so of two instants the
// greater difference counts, and a deadline is reached when either clock has
// reached it. A step of the wall clock thereby may end a term early, never late.
type Instant struct {
	// Elapsed counts from an arbitrary point, the same within one boot.
	Elapsed time.Duration
	// Wall counts from the Unix epoch.
	Wall time.Duration
}

// Clock reads the time and wakes at deadlines.
type Clock interface {
	Now() Instant
	// NewAlarm returns a disarmed alarm. Stop it after use.
	NewAlarm() Alarm
}

// Alarm wakes one goroutine at a deadline.
type Alarm interface {
	// C delivers a value when the deadline is reached. It may also deliver one
	// late, for a deadline that was replaced: look at the clock.
	C() <-chan struct{}
	// Set replaces the deadline; one in the past is reached at once. The zero
	// Instant disarms.
	Set(at Instant)
	Stop()
}

// Add returns the instant d later on both clocks.
func (i Instant) Add(d time.Duration) Instant {
	return Instant{Elapsed: i.Elapsed + d, Wall: i.Wall + d}
}

// IsZero reports whether i is no instant.
func (i Instant) IsZero() bool { return i == Instant{} }

// Time returns the reading of the wall clock.
func (i Instant) Time() time.Time { return time.Unix(0, int64(i.Wall)).UTC() }

// Since returns how much later i is than earlier, on the clock that says more.
func (i Instant) Since(earlier Instant) time.Duration {
	return max(i.Elapsed-earlier.Elapsed, i.Wall-earlier.Wall)
}

// Reached reports whether the deadline i is reached at now.
func (i Instant) Reached(now Instant) bool {
	return now.Elapsed >= i.Elapsed || now.Wall >= i.Wall
}

// Earlier returns the deadline that is reached as soon as a or b is; the zero
// Instant stands for none.
func Earlier(a, b Instant) Instant {
	switch {
	case a.IsZero():
		return b
	case b.IsZero():
		return a
	}
	return Instant{Elapsed: min(a.Elapsed, b.Elapsed), Wall: min(a.Wall, b.Wall)}
}

// Later returns the deadline that is reached when, on one clock, both are; the
// zero Instant is reached at any time.
func Later(a, b Instant) Instant {
	return Instant{Elapsed: max(a.Elapsed, b.Elapsed), Wall: max(a.Wall, b.Wall)}
}
