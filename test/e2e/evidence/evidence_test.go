// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"testing"
	"time"
)

func at(seconds float64) time.Time {
	return time.Unix(0, 0).Add(time.Duration(seconds * float64(time.Second)))
}

func work(token int64, from, to float64) Start {
	return Start{Job: "ns/job", Kind: "work", Holder: "pod", Boot: "b", Token: token, At: at(from), Last: at(to)}
}

func grant(token int64, second float64) Grant {
	return Grant{Token: token, Holder: "pod", At: at(second)}
}

// sound is what an orderly life of a job leaves: every check must let it pass.
var (
	soundGrants = []Grant{grant(10, 0), grant(17, 5), grant(30, 9)}
	soundStarts = []Start{raised(work(10, 1, 4), 1.1), child(work(10, 2, 4.5)), raised(work(17, 6, 8), 6.1), raised(work(30, 10, 20), 10.1)}
	soundWrites = []Write{{10, at(3)}, {10, at(6.05)}, {17, at(7)}, {30, at(11)}}
)

func raised(s Start, second float64) Start { s.RaisedAt = at(second); return s }
func child(s Start) Start                  { s.Kind = "child"; return s }
func of(s Start, holder string) Start      { s.Holder = holder; return s }

func TestChecksPassSoundEvidence(t *testing.T) {
	for name, err := range map[string]error{
		"TokensIncrease":     TokensIncrease(soundGrants),
		"StartsInOrder":      StartsInOrder(soundStarts),
		"OneStartPerToken":   OneStartPerToken(soundStarts),
		"StartsWereGranted":  StartsWereGranted(soundStarts, soundGrants),
		"NoOverlap":          NoOverlap(soundStarts),
		"StoppedBeforeGrant": StoppedBeforeGrant(soundStarts, soundGrants),
		"NoStaleWrites":      NoStaleWrites(soundStarts, soundWrites),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestChecksCatch is the negative control of every check: fabricated evidence of
// what must never be.
func TestChecksCatch(t *testing.T) {
	for name, err := range map[string]error{
		"a token granted twice":          TokensIncrease([]Grant{grant(10, 0), grant(10, 5)}),
		"a token that falls":             TokensIncrease([]Grant{grant(10, 0), grant(9, 5)}),
		"an old token started late":      StartsInOrder([]Start{work(17, 1, 2), work(10, 3, 4)}),
		"two starts of a token":          OneStartPerToken([]Start{work(10, 1, 2), work(10, 3, 4)}),
		"a start without a grant":        StartsWereGranted([]Start{work(11, 1, 2)}, soundGrants),
		"a start by another pod":         StartsWereGranted([]Start{of(work(10, 1, 2), "other")}, soundGrants),
		"an overlap at the end":          NoOverlap([]Start{work(10, 1, 4), work(17, 3, 6)}),
		"an overlap within":              NoOverlap([]Start{work(17, 2, 3), work(10, 1, 4)}),
		"an overlap in one instant":      NoOverlap([]Start{work(10, 1, 4), work(17, 4, 6)}),
		"a child that outlives its term": NoOverlap([]Start{work(10, 1, 2), child(work(10, 1, 7)), work(17, 6, 8)}),
		"work beyond the next grant":     StoppedBeforeGrant([]Start{work(10, 1, 5.1)}, soundGrants),
		"a child beyond the next grant":  StoppedBeforeGrant([]Start{child(work(10, 1, 5.1))}, soundGrants),
		"a stale write":                  NoStaleWrites(soundStarts, []Write{{10, at(6.2)}}),
		"a very stale write":             NoStaleWrites(soundStarts, []Write{{10, at(11)}}),
	} {
		if err == nil {
			t.Errorf("%s was not caught", name)
		}
	}
}
