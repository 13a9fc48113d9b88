// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import "math/bits"

// Bits of sets: ranked numbers use the low bits, raised ones the high bits.
const rankedBits = 56

func bit(n num) uint64 {
	switch {
	case n == 0:
		return 0
	case n >= raised:
		return 1 << (rankedBits + (n - raised))
	}
	return 1 << n
}

// numbers calls f for every number that a state refers to, except sets, which
// only say something about numbers that occur elsewhere too.
func (s *state) numbers(f func(*num)) {
	s.Lease.numbers(f)
	for i := range s.Observer {
		o := &s.Observer[i]
		o.View.numbers(f)
		f(&o.Owner.Token)
	}
	for i := range s.Agent {
		s.Agent[i].Write.numbers(f)
		f(&s.Agent[i].Token)
	}
	for i := range s.Pod {
		f(&s.Pod[i].Token)
		f(&s.Pod[i].Ended)
		f(&s.Pod[i].Work)
	}
	f(&s.Owner.Token)
	f(&s.Newest)
}

func (v *view) numbers(f func(*num)) {
	if v.UID == 0 {
		return
	}
	f(&v.UID)
	f(&v.RV)
	if v.Stamp != fresh {
		f(&v.Stamp)
	}
	f(&v.Token)
	f(&v.Released)
}

// used is the set of ranked numbers that occur.
func (s *state) used() uint64 {
	var set uint64
	s.numbers(func(n *num) {
		if *n > 0 && *n < raised {
			set |= 1 << *n
		}
	})
	return set
}

// nextVersion is the version that the next write gets.
func (s *state) nextVersion() num { return num(bits.Len64(s.used() | 1)) }

// renumber makes the numbers dense. It keeps order and equality, which is all
// that the protocol looks at.
func (s *state) renumber() {
	used := s.used()
	if used&(used+2) == 0 { // Dense already: bits 1…n.
		s.forget(used)
		return
	}
	var rank [64]num
	for set, next := used, num(1); set != 0; set &= set - 1 {
		rank[bits.TrailingZeros64(set)] = next
		next++
	}
	s.forget(used)
	s.numbers(func(n *num) {
		if *n < raised {
			*n = rank[*n]
		}
	})
	for _, set := range []*uint64{&s.WorkStarted, &s.EndedByManager} {
		*set = moved(*set, &rank)
	}
}

// forget drops from the sets what nothing refers to any more.
func (s *state) forget(used uint64) {
	keep := used | ^uint64(1<<rankedBits-1)
	s.WorkStarted &= keep
	s.EndedByManager &= keep
}

func moved(set uint64, rank *[64]num) uint64 {
	out := set &^ (1<<rankedBits - 1)
	for low := set & (1<<rankedBits - 1); low != 0; low &= low - 1 {
		out |= 1 << rank[bits.TrailingZeros64(low)]
	}
	return out
}

// simplify drops from a state what cannot matter any more, so that more states
// are equal.
func (m *model) simplify(s *state) {
	if m.plain {
		s.renumber()
		return
	}
	for i := range s.Observer {
		m.simplifyObserver(s, i)
	}
	for i := range s.Agent {
		m.simplifyAgent(s, &s.Agent[i])
	}
	for i := range s.Pod {
		s.simplifyPod(&s.Pod[i])
	}
	s.WorkStarted &= s.startable()
	s.renumber()
	m.turn(s)
}

// simplifyPod: which nonce an end carries matters only while it is the Lease's,
// or may become so: its process lives.
func (s *state) simplifyPod(p *pod) {
	for _, n := range p.nonces() {
		if *n != noNonce && *n != s.Lease.Started && !s.held(*n) {
			*n = past
		}
	}
}

func (p *pod) nonces() [5]*nonce {
	return [...]*nonce{&p.File, &p.Now.Message, &p.Now.LastMsg, &p.Report.Message, &p.Report.LastMsg}
}

// held reports whether an agent that lives may still write the nonce.
func (s *state) held(n nonce) bool {
	for i := range s.Agent {
		if s.Agent[i].Phase != down && s.Agent[i].Nonce == n {
			return true
		}
	}
	return false
}

// startable is the set of tokens with which work may yet be started.
func (s *state) startable() uint64 {
	tokens := bit(s.Newest)
	for i := range s.Agent {
		tokens |= bit(s.Agent[i].Token)
	}
	for i := range s.Pod {
		tokens |= bit(s.Pod[i].Token)
	}
	return tokens
}

// simplifyAgent: a request that the store will refuse is as good as lost, and
// so is a reply that gives no trust.
func (m *model) simplifyAgent(s *state, g *agent) {
	late := g.Stage == applied && g.Gain == 0 && (g.Kind == renew || g.Kind == confirm)
	doomed := g.Stage == sent && g.Write.RV != s.Lease.RV && m.Without != writesCarryUID
	if late || doomed {
		forgetRequest(g)
	}
}

// simplifyObserver: a write from a view that is not the newest is refused, so
// of such a view only the fingerprint matters, and only while it is still the
// Lease's: otherwise the age starts anew with the next sight.
func (m *model) simplifyObserver(s *state, i int) {
	o := &s.Observer[i]
	if !o.View.present() {
		o.Age = 0
		return
	}
	if (o.View.free() || o.View.granted()) && m.Without != oneObservation {
		o.Age = 0 // No step from these phases asks for it, and leaving them moves the fingerprint.
	}
	if m.stale || s.current(i) {
		return
	}
	if m.Gated && m.mayStamp(s, o.View) {
		o.View.RV, o.View.Longest, o.View.Configured, o.View.Closed, o.View.Deleting = 0, 0, 0, 0, false
		return
	}
	if !s.Lease.present() || m.print(o.View) != m.print(s.Lease) {
		o.View, o.Age = view{}, 0
		return
	}
	v := &o.View
	*v = view{
		UID: v.UID, Stamp: v.Stamp, Token: v.Token, Released: v.Released,
		Holder: v.Holder, Grantee: v.Grantee, Started: v.Started, SameTerm: v.SameTerm,
	}
}
