// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"errors"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/internal/holder/clock"
	"leasehold.dev/leaderelect/lease"
)

// Compete makes a machine a candidate that takes the Lease itself, where no
// controller grants it (see lease.Rival).
type Compete struct {
	// Namespace and Name of the Lease, which is created where there is none.
	Namespace string
	Name      string
	// Issuer is clusterUID/namespace/lease.
	Issuer string
	// Timing is that of the terms to take, in whole seconds.
	Timing lease.Timing
	// Fresh: see lease.Rival.
	Fresh bool
}

// taking is an attempt to take the Lease. It lasts until a term begins or the
// machine ends: whichever of its requests succeeds, the term is the same start's.
type taking struct {
	nonce string
	// sent is when the Take that is known to have succeeded was sent; zero: none
	// is known to.
	sent clock.Instant
	// uncertain: a Take was sent, and it is not known what became of it.
	uncertain bool
	// giveUpAt is when a machine that was told to stop no longer waits to learn
	// that; zero: it was not.
	giveUpAt clock.Instant
}

// compete is wait for a machine that takes the Lease itself. It acts on what a
// watch brings and on the clock; it does not poll.
func (m *Machine) compete() {
	k := &m.known
	switch {
	case m.taken():
		m.adopt()
	case m.shutdown != 0:
		m.withdraw()
	case k.since.IsZero() || k.err != nil: // Nothing is known yet, or what is was told.
	case k.lease == nil:
		m.create()
	default:
		m.contend()
	}
}

// taken reports whether the Lease shows that a Take of this machine succeeded.
func (m *Machine) taken() bool {
	k := &m.known
	if m.taking == nil || k.lease == nil || k.err != nil {
		return false
	}
	r := k.record
	return r.Phase() == lease.Live && r.GrantHolder == m.cfg.Holder && r.Started == m.taking.nonce && r.Token > m.used
}

// adopt begins the term that was taken. Where the reply was lost, a Confirm
// comes before the work: trust counts from a request that is known to have
// succeeded.
func (m *Machine) adopt() {
	r := m.known.record
	m.term = &term{
		start:   lease.Start{Holder: m.cfg.Holder, Token: r.Token, Nonce: m.taking.nonce},
		timing:  timing(r),
		renewed: m.taking.sent,
	}
	m.taking = nil
	m.failures, m.retryAt = 0, clock.Instant{}
}

// withdraw ends a machine that was told to stop before it had a term, once it
// knows that it has none.
func (m *Machine) withdraw() {
	if t := m.taking; t != nil && t.uncertain {
		if t.giveUpAt.IsZero() {
			t.giveUpAt = m.now.Add(m.cfg.ReleaseTimeout)
		}
		if !t.giveUpAt.Reached(m.now) {
			if m.request == nil {
				m.readFirst = true
				m.send(Read, nil)
			}
			return
		}
	}
	m.say("told to stop while waiting for the lease; no work was started")
	m.exit(m.shutdown)
}

func (m *Machine) create() {
	if m.request != nil || !m.retryAt.Reached(m.now) {
		return
	}
	if m.readFirst {
		m.send(Read, nil)
		return
	}
	c := m.cfg.Compete
	m.say("there is no such Lease yet; creating it")
	m.request = &request{kind: Create, sent: m.now}
	m.emit(Send{Kind: Create, Timeout: m.timing().RequestTimeout(), Lease: lease.NewCompeting(
		metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}, m.rival(), m.memory)})
}

// contend takes the Lease if it is free or has lapsed.
func (m *Machine) contend() {
	wait, err := m.observe().TakeableIn(m.rival())
	switch {
	case err != nil:
		m.say("not competing for the lease: %v", err)
		return
	case wait > 0:
		m.sayWaiting()
		return
	}
	if m.taking == nil {
		nonce := m.cfg.Origin
		nonce.Random = m.cfg.Random()
		m.taking = &taking{nonce: nonce.String()}
		m.emit(Announce{Nonce: nonce.String()})
	}
	m.send(Take, func(lease.Observation) (*coordinationv1.Lease, error) {
		return m.observe().Take(m.rival(), m.now.Time())
	})
	if m.request != nil && m.request.kind == Take {
		m.taking.uncertain = true
	}
}

func (m *Machine) sayWaiting() {
	if h := m.known.record.Holder; h != "" {
		m.say("waiting for the lease as %s; it is held by %s", m.cfg.Holder, h)
		return
	}
	m.say("waiting for the lease as %s; nobody is known to have released it", m.cfg.Holder)
}

// observe is what is known of the Lease, with the age of its term's fields. The
// age is measured on the clock that a step of the wall clock does not move:
// here, too long is unsafe.
func (m *Machine) observe() lease.Observation {
	return lease.Observation{Lease: m.known.lease, Age: m.now.Elapsed - m.known.changed.Elapsed}
}

func (m *Machine) rival() lease.Rival {
	c := m.cfg.Compete
	r := lease.Rival{Holder: m.cfg.Holder, Issuer: c.Issuer, Timing: c.Timing, Fresh: c.Fresh, Longest: m.memory.Longest}
	if m.taking != nil {
		r.Nonce = m.taking.nonce
	}
	return r
}

// competeWake is when a candidate needs a look, unless something happens before.
func (m *Machine) competeWake() clock.Instant {
	var at clock.Instant
	if m.taking != nil {
		at = m.taking.giveUpAt
	}
	if m.known.lease == nil || m.known.err != nil {
		return at
	}
	if wait, err := m.observe().TakeableIn(m.rival()); err == nil && wait > 0 {
		at = clock.Earlier(at, m.now.Add(wait))
	}
	return at
}

// rivalReply takes in the end of a Create or a Take. It reports whether there is
// nothing left to do with it.
func (m *Machine) rivalReply(r *request, ev Reply) bool {
	switch {
	case r.kind == Create && ev.Failure == None:
		m.failures, m.troubled = 0, false
		m.see(Seen{Lease: ev.Lease, Live: true, Asked: r.sent})
		return true
	case r.kind == Take && m.taking != nil:
		if ev.Failure != Unknown {
			m.taking.uncertain = false
		}
		if ev.Failure == None && older(r.version, ev.Lease.ResourceVersion) == yes {
			m.taking.sent = r.sent
		}
	case r.kind == Read && m.taking != nil && (ev.Failure == None || ev.Failure == Absent):
		m.taking.uncertain = false
	}
	return false
}

// remember keeps what a Lease said, should it vanish.
func (m *Machine) remember(r lease.Record) {
	c := &m.memory
	c.Token = max(c.Token, r.Token)
	c.Transitions = max(c.Transitions, r.Transitions)
	c.Longest = max(c.Longest, r.Duration)
	if m.known.lease.Labels[v1alpha1.LabelCompeting] == "true" {
		c.Longest = max(c.Longest, r.Longest)
	}
	if r.GrantHolder != "" {
		c.Holder = r.GrantHolder
	}
}

// pauseAfterEndRequest lets others have the lease that this machine was asked to
// give up.
func (m *Machine) pauseAfterEndRequest(t *term) {
	if m.cfg.Compete != nil && t.asked {
		m.retryAt = m.now.Add(t.timing.RenewInterval)
	}
}

// ErrEndRequested is the cause of stopping work whose term somebody asked to
// end.
var ErrEndRequested = errors.New("the end of the term was requested")
