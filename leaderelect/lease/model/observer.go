// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import "leasehold.dev/leaderelect/lease"

// The steps of controllers. A controller judges from what it has seen, however
// long ago, and its write carries the version of just that. So a write that is
// delayed on its way is the same as one that is made late from an old view: the
// store applies either only if nothing was written in between, and all that the
// controller judged by (ages, proofs of death) only grew meanwhile. A crash is
// a controller that takes no further step.

func (m *model) observerSteps(s *state, i int) {
	o := &s.Observer[i]
	m.do(s, label{Kind: sees, Who: i}, func(n *state) bool { return m.see(n, i) })
	if m.Gated {
		m.podReadSteps(s, i)
		m.stampStep(s, i)
		m.freeStep(s, i)
	}
	m.ownerSteps(s, i)
	if !o.View.present() || (!s.current(i) && m.Without != writesCarryUID) {
		return
	}
	m.grantSteps(s, i)
	m.endSteps(s, i)
	m.keepSteps(s, i)
}

// see reads the Lease, or gets it by watch. The age goes on only while the
// fingerprint stays.
func (m *model) see(s *state, i int) bool {
	o := &s.Observer[i]
	justified := o.Pod.Pod != nobody && s.Lease.present()
	over := m.Budget.PodDeletions > 0 && o.Pod.Pod != nobody && !(s.Lease.open() && s.Lease.Grantee == o.Pod.Pod)
	if o.View == s.Lease && o.Pod.Justified == justified && o.Pod.Over == over {
		return false
	}
	same := o.View.present() && s.Lease.present() && m.print(o.View) == m.print(s.Lease)
	if !same && m.Without != oneObservation {
		o.Age = 0
	}
	o.View, o.Pod.Justified, o.Pod.Over = s.Lease, justified, over
	return true
}

// argument is a basis on which a controller may end the recorded term.
type argument struct {
	Kind      lease.BasisKind
	Succeeded bool
	Age       uint8
}

// arguments are those that the controller has.
func (m *model) arguments(s *state, i int) []argument {
	o := &s.Observer[i]
	found := []argument{{Kind: lease.ByRelease, Age: o.Age}, {Kind: lease.ByLapse, Age: o.Age}}
	if g := o.View.Grantee; m.Death && o.View.open() && g != nobody && !s.Pod[g-1].Gone {
		if proof := m.judge(&s.Pod[g-1], o.View.Started); proof.Kind == lease.ByDeath {
			found = append(found, argument{lease.ByDeath, proof.Succeeded, o.Age})
		}
	}
	return found
}

// grantSteps: grant to a pod, ending an earlier term in the same write.
func (m *model) grantSteps(s *state, i int) {
	if m.Budget.Grants > 0 && s.Left.Grants == 0 {
		return
	}
	for _, why := range m.arguments(s, i) {
		for p := range s.Pod {
			if !m.candidate(&s.Pod[p]) {
				continue
			}
			c := call{Function: callGrant, Basis: why.Kind, Succeeded: why.Succeeded}
			m.manage(s, i, grants(why.Kind), p, c, byGrant)
		}
		if why.Kind == lease.ByRelease && s.Observer[i].View.free() {
			return // No other argument is needed, or makes a difference.
		}
	}
}

func grants(why lease.BasisKind) kind {
	return map[lease.BasisKind]kind{lease.ByRelease: grantsFree, lease.ByLapse: grantsLapsed, lease.ByDeath: grantsDead}[why]
}

// candidate reports whether a pod can be granted the lease. A cache may still
// have one that is going, or gone.
func (m *model) candidate(p *pod) bool {
	if m.kubelet() && !p.Gated {
		return false
	}
	return p.Report.State != terminated || m.restarts(p.Report.Exit)
}

// endSteps: withdraw, or end a term without a grant.
func (m *model) endSteps(s *state, i int) {
	m.manage(s, i, withdraws, 0, call{Function: callWithdraw}, byManager)
	for _, why := range m.arguments(s, i)[1:] {
		c := call{Function: callEnd, Basis: why.Kind, Succeeded: why.Succeeded}
		k := endsLapsed
		if why.Kind == lease.ByDeath {
			k = endsDead
		}
		m.manage(s, i, k, 0, c, byManager)
	}
}

// manage makes a write of a controller. The end of a term is first written into
// its pod, where pods are stamped.
func (m *model) manage(s *state, i int, k kind, p int, c call, by writer) {
	o := &s.Observer[i]
	c.View, c.Age, c.Who = o.View, o.Age, whoIs(p)
	a := m.ask(c)
	if a.Class != done {
		return
	}
	if m.mustMark(s, o.View) {
		m.do(s, label{Kind: marks, Who: i, Pod: int(o.View.Grantee) - 1}, func(n *state) bool {
			g := o.View.Grantee - 1
			n.Pod[g].Ended = max(n.Pod[g].Ended, o.View.Token)
			touch(n, int(g))
			return true
		})
		return
	}
	m.do(s, label{Kind: k, Who: i, Pod: p}, func(n *state) bool { return m.commit(n, a.View, by) })
}

// mustMark reports whether the pod of the term that a write would end is yet to
// be written.
func (m *model) mustMark(s *state, v view) bool {
	if !m.Gated || !v.open() || m.Without == oldPodWrittenFirst {
		return false
	}
	p := &s.Pod[v.Grantee-1]
	return p.Ended < v.Token && !p.Deleting
}

// podReadSteps: read a pod, before or after the Lease.
func (m *model) podReadSteps(s *state, i int) {
	for p := range s.Pod {
		m.do(s, label{Kind: readsPod, Who: i, Pod: p}, func(n *state) bool {
			read := podRead{Pod: whoIs(p)}
			if n.Observer[i].Pod == read {
				return false
			}
			n.Observer[i].Pod = read
			return true
		})
	}
}

// stampStep: give the holder's pod its token, and remove its gate, at the
// version that was read before the Lease. Where a controller confirms for the
// pod, the gate goes only when it has.
func (m *model) stampStep(s *state, i int) {
	o := &s.Observer[i]
	g := o.View.Grantee
	if !m.mayStamp(s, o.View) || o.Pod.Pod != g || (!o.Pod.Justified && m.Without != podReadFirst) {
		return
	}
	takes := !m.kubelet() || o.View.live()
	if p := &s.Pod[g-1]; p.Token == o.View.Token && (!takes || !p.Gated) {
		return
	}
	m.do(s, label{Kind: stamps, Who: i, Pod: int(g) - 1}, func(n *state) bool {
		token := n.Observer[i].View.Token
		pod := &n.Pod[g-1]
		if n.EndedByManager&bit(token) != 0 || token < pod.Token {
			n.Broken = s5PodCarriesItsToken
		}
		pod.Token, pod.Gated = token, pod.Gated && !takes
		touch(n, int(g-1))
		return true
	})
}

// mayStamp reports whether a view, old or not, lets a controller stamp the
// holder's pod: one that is not marked as about to lose the term.
func (m *model) mayStamp(s *state, v view) bool {
	if !v.counts() {
		return false
	}
	p := &s.Pod[v.Grantee-1]
	return !p.Deleting && (p.Ended < v.Token || m.Without == endedPodNotStamped)
}
