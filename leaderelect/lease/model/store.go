// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package model

// writer is who writes the Lease, and a manager what for.
type writer uint8

const (
	byAgent writer = iota
	byManager
	byGrant
)

// commit is the API server's Update of the Lease: it applies a write if the UID
// and resourceVersion in it are still the Lease's, and reports whether it did.
//
// by says whose write it is.
//
// A write without a UID (writesCarryUID left out) creates the Lease anew where
// there is none.
func (m *model) commit(s *state, w view, by writer) bool {
	old := s.Lease
	if !old.present() && (m.Without != writesCarryUID || !w.present()) {
		return false
	}
	if old.present() && (w.UID != old.UID || w.RV != old.RV) {
		return false
	}
	m.put(s, w)
	if !old.present() {
		s.Lease.UID, s.Lease.Deleting = s.Lease.RV, false
	}
	m.account(s, old, w, by)
	return true
}

// put stores a Lease under the next version.
func (m *model) put(s *state, w view) {
	w.RV = s.nextVersion()
	if w.Stamp == fresh {
		w.Stamp = w.RV
	}
	if w.Deleting && !w.Finalizer {
		w = view{}
	}
	s.Lease = w
}

// account keeps what the invariants speak about.
func (m *model) account(s *state, old, w view, by writer) {
	if m.Gated && by != byAgent && old.open() && w.Released >= old.Token {
		s.EndedByManager |= bit(old.Token)
	}
	if by == byGrant {
		m.accountGrant(s, w)
	}
	if w.Closed == closedCompleted {
		s.Succeeded = true
	}
}

func (m *model) accountGrant(s *state, w view) {
	switch {
	case w.Token <= s.Newest:
		s.Broken = s1TokensRise
	case s.Succeeded:
		s.Broken = s9CompletedStaysSo
	}
	s.Newest = max(s.Newest, w.Token)
	if s.Left.Grants > 0 {
		s.Left.Grants--
	}
}

// touch writes a pod, which voids every reading of it.
func touch(s *state, p int) {
	for i := range s.Observer {
		if s.Observer[i].Pod.Pod == whoIs(p) {
			s.Observer[i].Pod = podRead{}
		}
	}
}

// startWork is the start of work with a token.
func startWork(s *state, token num) {
	if s.WorkStarted&bit(token) != 0 {
		s.Broken = s8OneStartPerToken
	}
	s.WorkStarted |= bit(token)
}

// inspect checks the invariants that are properties of a state.
func (m *model) inspect(s *state) {
	if s.Broken != holds {
		return
	}
	works := 0
	for i := range s.Agent {
		a := &s.Agent[i]
		if a.Phase == working && a.Trust > 0 && s.Newest > a.Token {
			s.Broken = s2OneTrusted
			return
		}
		if a.Phase == working && !m.sidecar() {
			works++
		}
	}
	for i := range s.Pod {
		if s.Pod[i].Work != 0 {
			works++
		}
	}
	if m.forbid() && works > 1 {
		s.Broken = s6WorkNeverOverlaps
	}
	m.inspectProvable(s)
}
