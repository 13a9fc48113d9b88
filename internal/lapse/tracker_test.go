// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package lapse

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
)

var key = types.NamespacedName{Namespace: "default", Name: "ledger"}

func TestAgeCountsFromTheFirstSightingOfTheValue(t *testing.T) {
	c := testingclock.NewFakeClock(time.Unix(1000, 0))
	tr := NewTracker(c)
	steps := []struct {
		name           string
		value, version string
		want           time.Duration
	}{
		{"first sight, however old it is elsewhere", "a", "7", 0},
		{"unchanged", "a", "7", time.Second},
		{"another version of the same value", "a", "8", 2 * time.Second},
		{"another value", "b", "9", 0},
		{"unchanged again", "b", "9", time.Second},
		{"a version that went backwards", "b", "8", 0},
		{"a version that cannot be compared", "b", "x", 0},
		{"and never counts", "b", "x", 0},
	}
	for _, s := range steps {
		if got := tr.Observe("lease", s.value, s.version, c.Now()); got != s.want {
			t.Errorf("%s: age %s, want %s", s.name, got, s.want)
		}
		c.Step(time.Second)
	}
	tr.Forget("lease")
	if got := tr.Observe("lease", "b", "9", c.Now()); got != 0 {
		t.Errorf("a forgotten subject has age %s", got)
	}
}

// run starts a tracker on synctest's clock and returns the wake-ups.
func run(t *testing.T) (*Tracker, chan time.Time) {
	tr := NewTracker(clock.RealClock{})
	woken := make(chan time.Time, 10)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go tr.Run(ctx, func(types.NamespacedName) { woken <- time.Now() })
	return tr, woken
}

func TestAWakeComesWhenTheSubjectWasUnchangedForTheDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, woken := run(t)
		start := time.Now()
		tr.Observe("lease", "a", "1", time.Now())
		tr.Await(key, "lease", 15*time.Second)
		if got := (<-woken).Sub(start); got != 15*time.Second {
			t.Errorf("woken after %s", got)
		}
	})
}

func TestRenewalsPutOffTheWakeAndWakeNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, woken := run(t)
		start := time.Now()
		tr.Observe("lease", "0", "1", time.Now())
		tr.Await(key, "lease", 15*time.Second)
		renewals := time.NewTicker(5 * time.Second)
		for range 12 {
			now := <-renewals.C
			tr.Observe("lease", now.String(), "1", time.Now())
		}
		renewals.Stop()
		if got := (<-woken).Sub(start); got != 75*time.Second {
			t.Errorf("woken after %s, want 60 s of renewals and one duration", got)
		}
		if len(woken) != 0 {
			t.Error("woken more than once")
		}
	})
}

func TestALaterAwaitTakesThePlaceOfAnEarlierOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, woken := run(t)
		start := time.Now()
		tr.Observe("lease", "a", "1", time.Now())
		tr.Observe("node", "a", "1", time.Now())
		tr.Await(key, "lease", 60*time.Second)
		tr.Await(key, "lease", 5*time.Second)
		if got := (<-woken).Sub(start); got != 5*time.Second {
			t.Errorf("woken after %s", got)
		}
	})
}

func TestWhoWaitsForAForgottenOrUnknownSubjectIsWokenToLookAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, woken := run(t)
		start := time.Now()
		tr.Observe("node", "a", "1", time.Now())
		tr.Observe("lease", "a", "1", time.Now())
		tr.Await(key, "node", time.Hour)
		tr.Await(key, "lease", 15*time.Second)
		tr.Forget("node")
		if got := (<-woken).Sub(start); got != 0 {
			t.Errorf("woken %s after the subject was forgotten", got)
		}
		tr.Await(key, "never seen", time.Hour)
		if got := (<-woken).Sub(start); got != 0 {
			t.Errorf("woken %s after waiting for what nobody has seen", got)
		}
		if got := (<-woken).Sub(start); got != 15*time.Second {
			t.Errorf("the other wait came true after %s", got)
		}
	})
}

func TestAWatchThatLagsBehindALiveReadChangesNoAge(t *testing.T) {
	c := testingclock.NewFakeClock(time.Unix(1000, 0))
	tr := NewTracker(c)
	tr.Observe("lease", "b", "9", c.Now())
	for _, late := range []string{"7", "8"} {
		c.Step(time.Second)
		tr.See("lease", "a", late)
	}
	tr.See("lease", "b", "9")
	if got := tr.Observe("lease", "b", "9", c.Now()); got != 2*time.Second {
		t.Errorf("age %s, want 2s", got)
	}
	tr.See("lease", "c", "10")
	if got := tr.Observe("lease", "c", "10", c.Now()); got != 0 {
		t.Errorf("age %s after the watch showed a change", got)
	}
}

// A process that was stopped with a reply in its buffer must not take the time
// of the stop for silence.
func TestAnAgeCountsUpToTheBeginningOfTheRead(t *testing.T) {
	c := testingclock.NewFakeClock(time.Unix(1000, 0))
	tr := NewTracker(c)
	tr.Observe("node", "a", "1", c.Now())
	c.Step(time.Second)
	begun := tr.Now()
	c.Step(time.Minute)
	if got := tr.Observe("node", "a", "1", begun); got != time.Second {
		t.Errorf("age %s, want the 1s until the read began", got)
	}
	if got := tr.Observe("node", "b", "2", begun); got != 0 {
		t.Errorf("age %s of what was first seen after the read began", got)
	}
}

func TestSubjectsThatNobodySeesOrAwaitsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, woken := run(t)
		for _, subject := range []string{"gone", "seen", "awaited"} {
			tr.See(subject, "a", "1")
		}
		tr.Await(key, "awaited", 30*time.Hour)
		<-time.After(20 * time.Hour)
		tr.See("seen", "a", "1")
		<-time.After(8 * time.Hour)
		synctest.Wait()
		if tr.Known("gone") || !tr.Known("seen") || !tr.Known("awaited") {
			t.Errorf("known: gone %t, seen %t, awaited %t", tr.Known("gone"), tr.Known("seen"), tr.Known("awaited"))
		}
		<-woken
		if len(tr.waiting) != 0 || len(tr.deadlines) != 0 {
			t.Error("a wait that came true is kept")
		}
	})
}
