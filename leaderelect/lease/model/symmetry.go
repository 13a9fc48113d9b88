// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package model

// Two states that differ only in which controller, or which pod, is called the
// first are as good as one. simplify turns them so that they are one; a trace
// turns them back.

// turned says what has changed places.
type turned struct{ controllers, pods bool }

func (t turned) then(u turned) turned {
	return turned{t.controllers != u.controllers, t.pods != u.pods}
}

// turn brings a state into the order in which it is kept.
func (m *model) turn(s *state) {
	m.turned = turned{
		// A second agent is only ever started in the first pod.
		pods:        m.Budget.Execs == 0 && s.Lease.Grantee == podTwo,
		controllers: s.Observer[1].before(&s.Observer[0]),
	}
	s.turn(m.turned)
}

func (s *state) turn(t turned) {
	if t.controllers {
		s.Observer[0], s.Observer[1] = s.Observer[1], s.Observer[0]
	}
	if t.pods {
		s.mirror()
	}
}

// before is an order of observers that does not depend on which pod is which.
func (o *observer) before(p *observer) bool {
	switch {
	case o.Age != p.Age:
		return o.Age < p.Age
	case o.View.RV != p.View.RV:
		return o.View.RV < p.View.RV
	case o.View.UID != p.View.UID:
		return o.View.UID < p.View.UID
	case o.View.Token != p.View.Token:
		return o.View.Token < p.View.Token
	}
	return !o.Pod.Justified && p.Pod.Justified
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
