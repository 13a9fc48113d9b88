// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import "hash/maphash"

// result is what a search found.
type result struct {
	States int
	Depth  int
	// Steps counts the steps of each kind.
	Steps [kinds]int
	// Broken is the first broken invariant, and Trace a shortest way to it.
	Broken invariant
	Trace  []moment
}

// moment is a step and the state after it.
type moment struct {
	Label label
	State state
}

// search visits all states of a configuration, nearest first, until an
// invariant is broken.
//
// States are told apart by a 64-bit hash with a random seed: among ten million
// states the chance that two share one is below one in a hundred thousand, and
// other in every run.
type search struct {
	*model
	seen   set
	parent []uint32
	via    []uint32
	next   []state
	from   uint32
	limit  int
	result result
	// found, if set, is told of every new state.
	found func(state)
}

// run searches a configuration. limit, if not zero, ends the search after that
// many states.
func run(c Config, limit int) result {
	r := newSearch(c, maphash.MakeSeed())
	r.limit = limit
	return r.explore()
}

func newSearch(c Config, seed maphash.Seed) *search {
	r := &search{model: newModel(c, seed)}
	r.emit = r.visit
	return r
}

func (r *search) explore() result {
	first := r.initial()
	r.visit(label{Kind: begins}, &first)
	for base := 0; len(r.next) > 0 && !r.over(); {
		level := r.next
		r.next = nil
		for i := range level {
			r.from = uint32(base + i)
			r.steps(&level[i])
			if r.over() {
				break
			}
		}
		base += len(level)
		r.result.Depth++
	}
	r.result.States = len(r.via)
	return r.result
}

// over reports whether the search need not go on.
func (r *search) over() bool {
	return r.result.Broken != holds || (r.limit > 0 && len(r.via) >= r.limit)
}

// visit takes a state that a step led to.
func (r *search) visit(l label, s *state) {
	if r.result.Broken != holds {
		return
	}
	r.result.Steps[l.Kind]++
	r.inspect(s)
	broken := s.Broken
	if broken == holds {
		r.simplify(s)
	}
	if !r.seen.add(maphash.Comparable(r.seed, *s)) {
		return
	}
	r.parent, r.via = append(r.parent, r.from), append(r.via, l.pack())
	r.next = append(r.next, *s)
	if r.found != nil {
		r.found(*s)
	}
	if broken != holds {
		r.result.Broken = broken
		r.result.Trace = r.trace(uint32(len(r.via) - 1))
	}
}

// set is a set of hashes, open-addressed.
type set struct {
	slots []uint64
	count int
}

// add reports whether the hash is new.
func (s *set) add(hash uint64) bool {
	if hash == 0 {
		hash = 1
	}
	if 4*(s.count+1) > 3*len(s.slots) {
		s.grow()
	}
	mask := uint64(len(s.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		switch s.slots[i] {
		case hash:
			return false
		case 0:
			s.slots[i] = hash
			s.count++
			return true
		}
	}
}

// has reports whether the hash was added.
func (s *set) has(hash uint64) bool {
	if hash == 0 {
		hash = 1
	}
	mask := uint64(len(s.slots) - 1)
	for i := hash & mask; s.slots[i] != 0; i = (i + 1) & mask {
		if s.slots[i] == hash {
			return true
		}
	}
	return false
}

func (s *set) grow() {
	old := s.slots
	s.slots, s.count = make([]uint64, max(1024, 2*len(old))), 0
	for _, hash := range old {
		if hash != 0 {
			s.add(hash)
		}
	}
}
