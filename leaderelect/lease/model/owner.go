// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package model

// The steps by which controllers keep the Lease and its owner's record of it.

// keepSteps: what a controller does with a Lease that it has seen, besides
// granting and ending.
func (m *model) keepSteps(s *state, i int) {
	m.confirmForStep(s, i)
	if m.Budget.Deletions > 0 && !m.CarryFromPods {
		m.do(s, label{Kind: records, Who: i}, func(n *state) bool { return m.record(n, i) })
	}
	if m.Budget.Deletions > 0 {
		m.do(s, label{Kind: opens, Who: i}, func(n *state) bool { return m.openLease(n, i) })
		m.do(s, label{Kind: unfinalizes, Who: i}, func(n *state) bool { return m.unfinalize(n, i) })
	}
	if m.MinToken {
		m.do(s, label{Kind: recordsFloor, Who: i}, func(n *state) bool { return m.recordFloor(n, i) })
		m.do(s, label{Kind: writesFloor, Who: i}, func(n *state) bool { return m.writeFloor(n, i) })
	}
}

// record writes into the owner's status what the Lease says, unless the owner
// knows of a newer term: a new Lease may come from an old view of the owner. A
// record from an old view of the Lease changes nothing, for the same reason.
func (m *model) record(s *state, i int) bool {
	v, old := s.Observer[i].View, s.Owner
	if !s.current(i) || (v.Token < old.Token && m.Without != recordGoesForward) {
		return false
	}
	s.Owner.Token, s.Owner.Holder = v.Token, nobody
	if v.open() {
		s.Owner.Holder = v.Grantee
	}
	s.Owner.Complete = old.Complete || v.Closed == closedCompleted
	return s.Owner != old
}

// recorded reports whether the owner's status has the outcome of the Lease's
// newest term.
func recorded(o owner, v view) bool {
	return o.Token >= v.Token && o.Holder == nobody && (o.Complete || v.Closed != closedCompleted)
}

// unfinalize lets a Lease go that is being deleted: when its term has ended and
// the outcome is recorded.
func (m *model) unfinalize(s *state, i int) bool {
	v := s.Observer[i].View
	known := m.CarryFromPods || recorded(s.Owner, v) || m.Without == finalizerUntilRecorded
	if !v.Deleting || v.open() || !known {
		return false
	}
	v.Finalizer = false
	return m.commit(s, v, byManager)
}

// openLease opens a new Lease after another look at its owner, if the Lease
// knows what the owner knows.
func (m *model) openLease(s *state, i int) bool {
	v := s.Observer[i].View
	a := m.ask(call{Function: callOpen, View: v})
	if v.Closed != closedNew || a.Class != done || s.Owner.Complete || !m.knows(v, s.Owner) {
		return false
	}
	return m.commit(s, a.View, byManager)
}

// knows reports whether a Lease has the owner's newest token, and the holder of
// its unfinished term.
func (m *model) knows(v view, o owner) bool {
	switch m.Without {
	case openedAsKnown:
		return true
	case carryUnfinished:
		return v.Token >= max(o.Token, o.Floor)
	}
	return v.Token >= max(o.Token, o.Floor) && (o.Holder == nobody || (v.open() && v.Grantee == o.Holder))
}

// ownerSteps: create a Lease that is not there, with what was known of it when
// its absence was seen. The create may arrive much later.
func (m *model) ownerSteps(s *state, i int) {
	if m.Budget.Deletions == 0 {
		return
	}
	if !m.CarryFromPods && !s.Lease.present() {
		m.do(s, label{Kind: readsOwner, Who: i}, func(n *state) bool {
			read := n.Owner
			read.Read = true
			if n.Observer[i].Owner == read {
				return false
			}
			n.Observer[i].Owner = read
			return true
		})
	}
	m.do(s, label{Kind: creates, Who: i}, func(n *state) bool { return m.createLease(n, i) })
}

func (m *model) createLease(s *state, i int) bool {
	o := &s.Observer[i]
	carry := o.Owner
	if m.CarryFromPods {
		carry = m.podsSay(s)
	}
	if s.Lease.present() || !carry.Read || carry.Complete {
		return false
	}
	if m.Without == carryUnfinished {
		carry.Holder = nobody
	}
	v := m.create(carry)
	v.UID = s.nextVersion()
	m.put(s, v)
	o.Owner = owner{}
	return true
}

// podsSay is what the candidates' annotations tell of a vanished Lease: the
// newest token may be an unfinished term's. That it is marked as ending proves
// nothing: the mark is written before the Lease is, which may come to nothing.
func (m *model) podsSay(s *state) owner {
	carry := owner{Read: true}
	if m.Without == podsCarryTokens {
		return carry
	}
	for p := range s.Pod {
		t, marked := s.Pod[p].Token, s.Pod[p].Ended >= s.Pod[p].Token
		if t > carry.Token && (!marked || m.Without != markIsNoProof) {
			carry.Token, carry.Holder = t, whoIs(p)
		}
	}
	return carry
}

// neededFloor is what must be recorded before the next token is granted.
func neededFloor(v view) num { return max(v.Token+1, raised) }

// recordFloor writes into the owner's status a token above the version.
func (m *model) recordFloor(s *state, i int) bool {
	need := neededFloor(s.Observer[i].View)
	if s.Owner.Floor >= need || m.Without == tokenRecordedFirst {
		return false
	}
	s.Owner.Floor = need
	return true
}

// writeFloor copies the owner's record into the Lease.
func (m *model) writeFloor(s *state, i int) bool {
	v := s.Observer[i].View
	floor := s.Owner.Floor
	if m.Without == tokenRecordedFirst {
		floor = neededFloor(v)
	}
	if v.Floor >= floor {
		return false
	}
	v.Floor = floor
	return m.commit(s, v, byManager)
}
