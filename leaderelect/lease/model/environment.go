// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package model

// The steps of time, of people, and of electors that do not know the protocol.

func (m *model) environmentSteps(s *state) {
	m.do(s, label{Kind: ticksOn}, m.pass)
	if s.Left.Foreign > 0 && s.Lease.present() {
		m.do(s, label{Kind: wipes}, func(n *state) bool { return m.wipe(n) })
		m.do(s, label{Kind: seizes}, func(n *state) bool { return m.seize(n) })
	}
	if s.Left.Deletions > 0 && s.Lease.present() {
		m.do(s, label{Kind: deletes}, func(n *state) bool { return m.softDelete(n) })
		m.do(s, label{Kind: vanishes}, func(n *state) bool { return m.vanish(n) })
	}
	m.deletePodSteps(s)
	if s.Left.Edits > 0 && s.Lease.present() {
		m.do(s, label{Kind: edits}, func(n *state) bool { return m.edit(n) })
	}
	if s.Left.Execs > 0 && s.Pod[0].Now.State == running && s.Agent[agents-1].Phase == down {
		m.do(s, label{Kind: execs}, func(n *state) bool {
			n.Left.Execs--
			n.Agent[agents-1] = agent{Phase: idle}
			return true
		})
	}
}

// pass lets one tick pass on every clock. Clocks stop where more makes no
// difference.
func (m *model) pass(s *state) bool {
	old := *s
	limit := max(m.Duration, m.Other)
	for i := range s.Observer {
		if o := &s.Observer[i]; o.View.present() {
			o.Age = min(o.Age+1, limit)
		}
	}
	for i := range s.Agent {
		g := &s.Agent[i]
		g.Trust -= min(g.Trust, 1)
		if m.Without != trustFromRequest {
			g.Gain -= min(g.Gain, 1)
		}
	}
	return *s != old
}

// wipe is client-go's release, or a hand's.
func (m *model) wipe(s *state) bool {
	if s.Lease.Holder == nobody {
		return false
	}
	s.Left.Foreign--
	v := s.Lease
	v.Holder, v.Duration, v.Stamp = nobody, second, fresh
	m.put(s, v)
	return true
}

// seize is another elector's acquisition, whatever it should have waited for.
func (m *model) seize(s *state) bool {
	s.Left.Foreign--
	v := s.Lease
	v.Holder, v.SameTerm, v.Stamp = stranger, false, fresh
	m.put(s, v)
	return true
}

// softDelete is an ordinary deletion: the finalizer keeps the Lease.
func (m *model) softDelete(s *state) bool {
	if s.Lease.Deleting {
		return false
	}
	s.Left.Deletions--
	v := s.Lease
	v.Deleting = true
	m.put(s, v)
	return true
}

// vanish is a loss of the Lease in spite of its finalizer, once the owner's
// status names the term in progress; until then, as when the finalizer is taken
// off by force before anybody could record the term, nothing can be known.
func (m *model) vanish(s *state) bool {
	v := &s.Lease
	known := s.Owner.Token >= v.Token && (s.Owner.Holder == v.Grantee || !v.open())
	if !m.CarryFromPods && ((v.open() && v.Started != noNonce && !known) || (v.Closed == closedCompleted && !s.Owner.Complete)) {
		return false
	}
	s.Left.Deletions--
	s.Lease = view{}
	return true
}

// edit changes the configured duration, to and fro.
func (m *model) edit(s *state) bool {
	s.Left.Edits--
	v := s.Lease
	v.Configured = m.Duration + m.Other - v.Configured
	if m.Without == specDurationFrozen && v.Duration != 0 {
		v.Duration = v.Configured
	}
	m.put(s, v)
	return true
}
