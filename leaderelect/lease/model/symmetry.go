// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"bytes"
	"hash/maphash"
)

// Two states that differ only in which controller, or which pod, is called the
// first are as good as one. simplify turns them so that they are one; a trace
// turns them back.

// turned says what has changed places.
type turned struct{ controllers, pods bool }

func (t turned) then(u turned) turned {
	return turned{t.controllers != u.controllers, t.pods != u.pods}
}

// turn brings a state into the order in which it is kept: the pod that the
// newest grant names comes first. Where none is named, the smaller hash wins.
// A second agent is only ever started in the first pod, which is then not like
// the second.
func (m *model) turn(s *state) {
	m.turned = turned{}
	if m.Budget.Execs == 0 {
		m.turned.pods = s.Lease.Grantee == podTwo
	}
	s.turn(m.turned)
	m.turned.controllers = s.orderControllers()
	if m.Budget.Execs > 0 || s.Lease.Grantee != nobody {
		return
	}
	t := *s
	t.mirror()
	swapped := t.orderControllers()
	if maphash.Comparable(m.seed, t) < maphash.Comparable(m.seed, *s) {
		*s = t
		m.turned = m.turned.then(turned{controllers: swapped, pods: true})
	}
}

func (s *state) orderControllers() bool {
	swap := s.Observer[1].before(&s.Observer[0])
	s.turn(turned{controllers: swap})
	return swap
}

func (s *state) turn(t turned) {
	if t.controllers {
		s.Observer[0], s.Observer[1] = s.Observer[1], s.Observer[0]
	}
	if t.pods {
		s.mirror()
	}
}

// before is an order of observers; which one does not matter.
func (o *observer) before(p *observer) bool {
	if o.Age != p.Age {
		return o.Age < p.Age
	}
	a, b := o.key(), p.key()
	return bytes.Compare(a[:], b[:]) < 0
}

func (o *observer) key() [24]byte {
	v, w := &o.View, &o.Owner
	return [...]byte{
		v.UID, v.RV, v.Stamp, v.Token, v.Released, v.Holder, v.Grantee, v.Started, v.Duration, v.Longest, v.Configured,
		v.Closed, v.Floor, digit(v.Deleting), digit(v.Finalizer), digit(v.SameTerm),
		o.Pod.Pod, digit(o.Pod.Justified), digit(o.Pod.Over), digit(w.Read), w.Token, w.Holder, digit(w.Complete), w.Floor,
	}
}

func digit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// mirror lets the two pods change places.
func (s *state) mirror() {
	s.Agent[0], s.Agent[1] = s.Agent[1], s.Agent[0]
	s.Pod[0], s.Pod[1] = s.Pod[1], s.Pod[0]
	s.Lease.mirror()
	other(&s.Owner.Holder)
	for i := range s.Observer {
		o := &s.Observer[i]
		o.View.mirror()
		other(&o.Pod.Pod)
		other(&o.Owner.Holder)
	}
	for i := range s.Agent {
		s.Agent[i].Write.mirror()
		otherNonce(&s.Agent[i].Nonce)
	}
	for i := range s.Pod {
		for _, n := range s.Pod[i].nonces() {
			otherNonce(n)
		}
	}
}

func (v *view) mirror() {
	other(&v.Holder)
	other(&v.Grantee)
	otherNonce(&v.Started)
}

func other(w *who) {
	if *w == podOne || *w == podTwo {
		*w = podOne + podTwo - *w
	}
}

func otherNonce(n *nonce) {
	first, second, last := nonceOf(0, 0), nonceOf(1, 0), nonceOf(2, 0)
	switch {
	case *n >= first && *n < second:
		*n += second - first
	case *n >= second && *n < last:
		*n -= second - first
	case *n > ofPod:
		*n = ofPod + podOne + podTwo - (*n - ofPod)
	}
}

// show undoes what was turned, in a state and the step that leads to it.
func (t turned) show(l label) label {
	if t.controllers && l.Kind.ofController() {
		l.Who = 1 - l.Who
	}
	if t.pods {
		l.Pod = 1 - l.Pod
		if !l.Kind.ofController() && l.Who < pods {
			l.Who = 1 - l.Who
		}
	}
	return l
}
