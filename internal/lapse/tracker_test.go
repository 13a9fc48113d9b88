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
		if got := tr.Observe("lease", s.value, s.version); got != s.want {
			t.Errorf("%s: age %s, want %s", s.name, got, s.want)
		}
		c.Step(time.Second)
	}
	tr.Forget("lease")
	if got := tr.Observe("lease", "b", "9"); got != 0 {
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
		tr.Observe("lease", "a", "1")
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
		tr.Observe("lease", "0", "1")
		tr.Await(key, "lease", 15*time.Second)
		renewals := time.NewTicker(5 * time.Second)
		for range 12 {
			now := <-renewals.C
			tr.Observe("lease", now.String(), "1")
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

func TestAnEarlierAwaitIsReplacedAndACancelledOneIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, woken := run(t)
		start := time.Now()
		tr.Observe("lease", "a", "1")
		tr.Observe("node", "a", "1")
		tr.Await(key, "lease", 60*time.Second)
		tr.Await(key, "lease", 5*time.Second)
		tr.Await(key, "node", time.Second)
		tr.Cancel(key, "node")
		tr.Await(key, "never seen", time.Second)
		if got := (<-woken).Sub(start); got != 5*time.Second {
			t.Errorf("woken after %s", got)
		}
		tr.Await(key, "lease", 20*time.Second)
		tr.Forget("lease")
		tr.Observe("node", "b", "2")
		tr.Await(key, "node", 30*time.Second)
		if got := (<-woken).Sub(start); got != 35*time.Second {
			t.Errorf("woken after %s, want the node's deadline only", got)
		}
	})
}
