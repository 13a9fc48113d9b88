// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"errors"

	coordinationv1 "k8s.io/api/coordination/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/internal/holder/clock"
	"leasehold.dev/leaderelect/lease"
)

// term is one grant to this agent, from its sight to its end.
type term struct {
	start  lease.Start
	timing lease.Timing
	// renewed is when the last Confirm or Renew that is known to have succeeded
	// was sent; zero: the grant is not confirmed.
	renewed clock.Instant

	// lost is why the term ended before its work.
	lost error
	// asked: the work was asked to stop, by a signal or an end request.
	asked bool
	// again: only the end of this term was asked for; wait for the next one.
	again bool
	// stopping: SIGTERM, or the signal that asked, was sent.
	stopping bool
	// forceAt is when stopping work is killed; killed: it was.
	forceAt clock.Instant
	killed  bool
	// pending are signals that came while the command was being started.
	pending []Action

	// over: nothing of the work is left; outcome and code say how it ended.
	over    bool
	outcome v1alpha1.Outcome
	code    int
	// giveUpAt is when the release is given up, or, before the term is over,
	// when waiting for killed processes is; zero: never.
	giveUpAt clock.Instant
}

// stopAt, killAt: see lease.Timing.
func (t *term) stopAt() clock.Instant { return t.renewed.Add(t.timing.Stop()) }
func (t *term) killAt() clock.Instant { return t.renewed.Add(t.timing.Kill()) }

// wait looks for a grant to this agent.
func (m *Machine) wait() {
	m.known.restored = nil // No term depends on it; the newer state counts.
	if m.cfg.Compete != nil {
		m.compete()
		return
	}
	granted := m.granted()
	switch {
	case granted:
		m.begin()
	case m.shutdown != 0:
		m.say("told to stop while waiting for the lease; no work was started")
		m.exit(m.shutdown)
	case m.known.since.IsZero(): // Nothing is known yet.
	case m.known.lease == nil:
		m.say("there is no such Lease yet; waiting for it")
	case m.known.err != nil: // Told when it was seen.
	case m.known.record.Closed == v1alpha1.ClosedCompleted:
		m.say("the work is already done: the Lease is closed as Completed")
		m.exit(0)
	case m.startedElsewhere():
		m.endOutlived()
	default:
		m.say("waiting for the lease as %s", m.cfg.Holder)
	}
}

// granted reports whether the Lease is granted to this agent and waits for a
// Confirm. A token that this process has worked with is not taken twice, also
// when a restored store offers it again.
func (m *Machine) granted() bool {
	k := m.known
	if k.lease == nil || k.err != nil || k.lease.Labels[v1alpha1.LabelManaged] != "true" {
		return false
	}
	r := k.record
	if r.Phase() != lease.Granted || r.GrantHolder != m.cfg.Holder || r.Token <= m.used {
		return false
	}
	if err := timing(r).Validate(); err != nil {
		m.say("the grant of token %d is not taken: %v", r.Token, err)
		return false
	}
	return true
}

// timing is that of the granted term. The interval of the configuration may
// have been meant for another duration.
func timing(r lease.Record) lease.Timing {
	t := lease.Timing{Duration: r.Duration, RenewInterval: r.Config.RenewInterval}
	if t.Validate() != nil {
		t.RenewInterval = t.Duration / 3
	}
	return t
}

func (m *Machine) begin() {
	nonce := m.cfg.Origin
	nonce.Random = m.cfg.Random()
	r := m.known.record
	m.term = &term{
		start:  lease.Start{Holder: m.cfg.Holder, Token: r.Token, Nonce: nonce.String()},
		timing: timing(r),
	}
	m.failures, m.retryAt = 0, clock.Instant{}
	m.emit(Announce{Nonce: nonce.String()})
}

// startedElsewhere reports whether an open term of this agent's name was
// confirmed by another process: before a restart in place, or beside this one.
func (m *Machine) startedElsewhere() bool {
	r := m.known.record
	return r.Open() && r.GrantHolder == m.cfg.Holder && r.Started != ""
}

// endOutlived ends the term of an earlier start, where this agent's existence
// proves that it is over.
func (m *Machine) endOutlived() {
	r := m.known.record
	s := lease.Start{Holder: m.cfg.Holder, Token: r.Token}
	var other *lease.OtherStartError
	if _, err := (lease.Observation{Lease: m.known.lease}).ReleaseOutlived(s, m.cfg.Origin); errors.As(err, &other) {
		m.say("token %d was used by another process (nonce %s) that this one is not known to have outlived; waiting for that term to lapse and for a new grant", r.Token, other.Nonce)
		return
	}
	m.send(Outlived, func(o lease.Observation) (*coordinationv1.Lease, error) {
		return o.ReleaseOutlived(s, m.cfg.Origin)
	})
}

// takeUp confirms the grant and starts the work.
func (m *Machine) takeUp() {
	t := m.term
	if err := m.check(); err != nil && !errors.Is(err, lease.ErrNotLive) {
		m.say("the grant of token %d is over before work began: %v", t.start.Token, err)
		m.term = nil
		return
	}
	switch {
	case m.shutdown != 0:
		m.neverStarted(m.shutdown)
	case t.renewed.IsZero() || m.known.err != nil:
		m.confirm()
	case m.known.record.EndRequested == t.start.Token:
		t.again = true
		m.neverStarted(0)
	case t.stopAt().Reached(m.now):
		t.renewed = clock.Instant{} // The reply came too late to begin on.
		m.confirm()
	default:
		m.startWork()
	}
}

func (m *Machine) confirm() {
	m.send(Confirm, func(o lease.Observation) (*coordinationv1.Lease, error) {
		return o.Confirm(m.term.start, m.now.Time())
	})
}

// neverStarted goes on to the release of a term whose work did not begin.
func (m *Machine) neverStarted(code int) {
	m.finish(v1alpha1.OutcomeStopped, code)
}

func (m *Machine) startWork() {
	t := m.term
	m.work = workStarting
	m.used = t.start.Token
	m.say("holding token %d; starting the command", t.start.Token)
	m.emit(Guard{At: t.killAt()})
	m.emit(Start{Claim: Claim{Token: t.start.Token, Holder: t.start.Holder, Issuer: m.known.record.Issuer}})
}
