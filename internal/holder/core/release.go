// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	coordinationv1 "k8s.io/api/coordination/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/internal/holder/clock"
	"leasehold.dev/leaderelect/lease"
)

// finish begins the release of a term of whose work nothing is left.
//
// A success is worth waiting for the API server as long as it takes: whoever
// gives up has the work done again. So is a term after which the agent goes on
// waiting. Elsewhere the release only saves the others a wait.
func (m *Machine) finish(outcome v1alpha1.Outcome, code int) {
	t := m.term
	t.over, t.outcome, t.code = true, outcome, code
	t.giveUpAt = clock.Instant{}
	m.failures, m.retryAt = 0, clock.Instant{}
	switch {
	case t.again:
	case t.lost != nil || (m.work == workNone && m.used != t.start.Token):
		t.giveUpAt = m.now.Add(2 * t.timing.RequestTimeout())
	case m.shutdown == 0 && outcome == v1alpha1.OutcomeSucceeded && m.cfg.Compete == nil:
	default:
		t.giveUpAt = m.now.Add(m.cfg.ReleaseTimeout)
	}
}

// ending is what is known of a release.
type ending int

const (
	// open: the Lease shows the term, or nothing is known.
	open ending = iota
	// committed: the Lease shows that the term was released with our outcome.
	committed
	// foregone: the term has ended otherwise; no release can be written.
	foregone
)

// ending reads from the Lease how the term has ended. The next grants keep the
// released token and outcome until the next term ends.
func (m *Machine) ending() ending {
	t, k := m.term, m.known
	if k.lease == nil {
		return foregone
	}
	if k.err != nil {
		return open
	}
	r := k.record
	switch {
	case r.Released == t.start.Token && r.Outcome == t.outcome:
		return committed
	case r.Token != t.start.Token || r.GrantHolder != t.start.Holder || !r.Open():
		return foregone
	case r.Started != "" && r.Started != t.start.Nonce:
		return foregone
	}
	return open
}

// release writes the end of the term until that is known to be committed, or
// can no longer be.
func (m *Machine) release() {
	t := m.term
	switch m.ending() {
	case committed:
		m.say("released token %d: %s", t.start.Token, t.outcome)
		m.conclude(t.code)
		return
	case foregone:
		m.say("token %d was not released by its work: the term has ended otherwise", t.start.Token)
		m.conclude(unlessZero(t.code, CodeLost))
		return
	case open:
	}
	if !t.giveUpAt.IsZero() && t.giveUpAt.Reached(m.now) {
		m.say("the release of token %d could not be made known", t.start.Token)
		m.exit(m.unreported(t))
		return
	}
	m.send(Release, func(o lease.Observation) (*coordinationv1.Lease, error) {
		return o.Release(t.start, t.outcome)
	})
}

// unreported is the status of work whose end could not be made known. Where no
// controller would start it again for that, a success within its trusted term is
// one.
func (m *Machine) unreported(t *term) int {
	if m.cfg.Compete != nil && t.lost == nil {
		return t.code
	}
	return unlessZero(t.code, CodeNoAPI)
}

// conclude ends the agent, or waits for the next term.
func (m *Machine) conclude(code int) {
	again := m.term.again
	m.pauseAfterEndRequest(m.term)
	m.term = nil
	if !again {
		m.exit(code)
	}
}

// unlessZero keeps the work's own status; one of 0 would claim a recorded
// success.
func unlessZero(code, otherwise int) int {
	if code == 0 {
		return otherwise
	}
	return code
}
