// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"hash/maphash"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// sample calls f with states of every configuration.
func sample(t *testing.T, f func(*testing.T, *model, state)) {
	t.Helper()
	for _, c := range configurations() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			r := newSearch(c, maphash.MakeSeed())
			r.plain, r.limit = true, 3000
			m := newModel(c, maphash.MakeSeed())
			r.found = func(s state) { f(t, m, s) }
			r.explore()
		})
	}
}

func TestALeaseMadeFromAViewIsReadBackAsIt(t *testing.T) {
	sample(t, func(t *testing.T, m *model, s state) {
		if !s.Lease.present() {
			return
		}
		if d := cmp.Diff(s.Lease, toView(m.toLease(s.Lease, m.configOf(s.Lease)), s.Lease)); d != "" {
			t.Fatal(d)
		}
	})
}

func TestSimplifyIsIdempotentAndTracesTurnStatesBack(t *testing.T) {
	sample(t, func(t *testing.T, m *model, s state) {
		m.simplify(&s)
		once := s
		m.simplify(&s)
		if s != once {
			t.Fatalf("simplified again: %s", cmp.Diff(once, s))
		}
		for _, u := range []turned{{controllers: true}, {pods: true}, {controllers: true, pods: true}} {
			s.turn(u)
			s.turn(u)
			if s != once {
				t.Fatalf("turned %+v and back: %s", u, cmp.Diff(once, s))
			}
		}
	})
}

func TestRenumberKeepsOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Uint8Range(0, 55), rapid.Uint8Range(raised, raised+5))
		s := state{Lease: view{UID: 1, RV: number.Draw(t, "rv"), Token: number.Draw(t, "token")}}
		s.Newest, s.Pod[0].Token = number.Draw(t, "newest"), number.Draw(t, "pod")
		s.WorkStarted = bit(s.Newest)
		after := s
		after.renumber()
		before, now := list(&s), list(&after)
		for i := range before {
			for j := range before {
				if (before[i] < before[j]) != (now[i] < now[j]) || (before[i] == 0) != (now[i] == 0) {
					t.Fatalf("%v became %v", before, now)
				}
			}
		}
		if after.WorkStarted != bit(after.Newest) {
			t.Fatalf("the set %b does not follow %v", after.WorkStarted, now)
		}
	})
}

func list(s *state) []num {
	var all []num
	s.numbers(func(n *num) { all = append(all, *n) })
	return all
}

func TestSetHasWhatWasAdded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s set
		model := map[uint64]bool{}
		for _, h := range rapid.SliceOf(rapid.Uint64Range(0, 2000)).Draw(t, "hashes") {
			h = max(h, 1) // Zero is kept as one.
			if s.add(h) == model[h] {
				t.Fatalf("add(%d) again: %t", h, model[h])
			}
			model[h] = true
		}
		for h := range uint64(2001) {
			if h > 0 && len(s.slots) > 0 && s.has(h) != model[h] {
				t.Fatalf("has(%d) is %t", h, !model[h])
			}
		}
	})
}
