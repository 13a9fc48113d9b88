// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"leasehold.dev/internal/holder/clock"
)

const patience = 20 * time.Second

func fires(t *testing.T, a clock.Alarm) {
	t.Helper()
	select {
	case <-a.C():
	case <-time.After(patience):
		t.Fatal("the alarm does not fire")
	}
}

func quiet(t *testing.T, a clock.Alarm) {
	t.Helper()
	select {
	case <-a.C():
		t.Fatal("the alarm fires")
	case <-time.After(50 * time.Millisecond):
	}
}

// never is a deadline that a test does not live to see.
const never = 1000 * time.Hour

func TestAlarmsOfThisSystem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]clock.Clock{"best": clock.New(), "portable": clock.Portable()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := c.NewAlarm()
			defer a.Stop()
			quiet(t, a)

			at := c.Now().Add(30 * time.Millisecond)
			a.Set(at)
			fires(t, a)
			if !at.Reached(c.Now()) {
				t.Error("fired early")
			}
			a.Set(c.Now().Add(-time.Minute)) // In the past.
			fires(t, a)

			// Either clock alone is enough.
			a.Set(clock.Instant{Elapsed: c.Now().Elapsed + 10*time.Millisecond, Wall: c.Now().Wall + never})
			fires(t, a)
			a.Set(clock.Instant{Elapsed: c.Now().Elapsed + never, Wall: c.Now().Wall + 10*time.Millisecond})
			fires(t, a)

			a.Set(c.Now().Add(20 * time.Millisecond))
			a.Set(clock.Instant{})
			quiet(t, a)
			a.Set(c.Now().Add(20 * time.Millisecond))
			a.Set(c.Now().Add(never))
			quiet(t, a)
		})
	}
}

func TestPortableAlarmNoticesTheDeadlineToTheDot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clock.Portable()
		a := c.NewAlarm()
		defer a.Stop()
		at := c.Now().Add(10*time.Second + time.Millisecond)
		a.Set(at)
		<-a.C()
		if late := c.Now().Since(at); late != 0 {
			t.Errorf("late by %s", late)
		}
	})
}

func TestInstants(t *testing.T) {
	t.Parallel()
	i := clock.Instant{Elapsed: time.Hour, Wall: 2 * time.Hour}
	suspended := clock.Instant{Elapsed: 2 * time.Hour, Wall: 2 * time.Hour}
	paused := clock.Instant{Elapsed: time.Hour, Wall: 3 * time.Hour}
	setBack := clock.Instant{Elapsed: 2 * time.Hour, Wall: 0}
	for name, later := range map[string]clock.Instant{"suspended": suspended, "paused": paused, "set back": setBack} {
		if got := later.Since(i); got != time.Hour {
			t.Errorf("%s: %s later, want 1h", name, got)
		}
		if !i.Add(time.Hour).Reached(later) || i.Add(time.Hour+1).Reached(later) {
			t.Errorf("%s: a deadline after 1h is not reached to the dot", name)
		}
	}
	early := clock.Earlier(suspended, paused)
	if early != (clock.Instant{Elapsed: time.Hour, Wall: 2 * time.Hour}) {
		t.Errorf("earlier of both: %v", early)
	}
	if clock.Earlier(clock.Instant{}, i) != i || clock.Earlier(i, clock.Instant{}) != i {
		t.Error("no deadline counts as one")
	}
}
