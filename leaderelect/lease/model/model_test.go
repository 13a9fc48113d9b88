// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"hash/maphash"
	"sync"
	"testing"
	"time"
)

// occurred counts the steps of each kind in all configurations.
type occurred struct {
	sync.Mutex
	searches int
	steps    [kinds]int
}

func (o *occurred) add(r result) {
	o.Lock()
	defer o.Unlock()
	o.searches++
	for k, n := range r.Steps {
		o.steps[k] += n
	}
}

func TestInvariantsHold(t *testing.T) {
	var seen occurred
	t.Run("in", func(t *testing.T) {
		for _, c := range configurations() {
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				seed := maphash.MakeSeed()
				s := newSearch(c, seed)
				s.limit = limit
				began := time.Now()
				r := s.explore()
				seen.add(r)
				t.Logf("%-22s %9d states, depth %3d, %6.2f s", c.Name, r.States, r.Depth, time.Since(began).Seconds())
				if r.Broken != holds {
					t.Fatal(explain(r))
				}
				if limit == 0 {
					losesNoState(t, s, seed)
				}
			})
		}
	})
	if limit > 0 || seen.searches < len(configurations()) {
		return
	}
	for k, n := range seen.steps { // A step that never occurs has proven nothing.
		if n == 0 && kind(k) != believes && kind(k) != exits {
			t.Errorf("in no configuration: %s", text[k])
		}
	}
}

// losesNoState: what simplify merges must be as good as one. So every state
// that a search without it reaches must, simplified, be among those of the
// search with it.
func losesNoState(t *testing.T, all *search, seed maphash.Seed) {
	t.Helper()
	plain := newSearch(all.Config, seed)
	plain.plain, plain.limit = true, 50_000
	lost := 0
	plain.found = func(s state) {
		before := s
		all.simplify(&s)
		if all.seen.has(maphash.Comparable(seed, s)) {
			return
		}
		if lost == 0 {
			t.Logf("lost: %+v", before)
		}
		lost++
	}
	if r := plain.explore(); lost > 0 {
		t.Errorf("%d of %d states are lost", lost, r.States)
	}
}
