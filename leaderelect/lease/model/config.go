// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"hash/maphash"

	corev1 "k8s.io/api/core/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// Config is one configuration of the system: what it is made of, and how much
// the environment may do to it.
type Config struct {
	Name      string
	Policy    v1alpha1.OverlapPolicy
	RenewedBy v1alpha1.RenewedBy
	// Duration is the duration of terms in ticks; Other is what an edit of the
	// configuration changes it to, and back.
	Duration, Other uint8
	// Restart is the pods' policy; Restarts bounds how often a container starts
	// again.
	Restart  corev1.RestartPolicy
	Restarts uint8
	// ToCompletion: success closes the Lease.
	ToCompletion bool
	// Gated: pods are cold until they are stamped.
	Gated bool
	// Death: controllers use proofs of death.
	Death bool
	// MinToken: the least token is far above the store's version.
	MinToken bool
	// Instant: agents' requests and replies take no time and are not lost.
	Instant bool
	// SecondContainer: the second agent runs in another container of the pod,
	// which started later.
	SecondContainer bool
	// CarryFromPods: what is known of a vanished Lease are the pods' tokens;
	// otherwise its owner's status.
	CarryFromPods bool
	// Budget bounds the environment. Everything else is unbounded.
	Budget budget
	// Without is the rule that is left out.
	Without rule
}

// model explores one configuration.
type model struct {
	Config
	// stale keeps outdated views of controllers, where they matter.
	stale   bool
	answers map[call]answer
	prints  map[view]int
	texts   map[string]int
	proofs  map[deathCall]lease.Basis
	emit    func(label, *state)
	// seed is that of the hashes by which states are told apart.
	seed maphash.Seed
	// plain leaves out everything in simplify that only makes states fewer.
	plain bool
	// turned is what changed places in the last simplify.
	turned turned
}

func newModel(c Config, seed maphash.Seed) *model {
	return &model{
		Config:  c,
		seed:    seed,
		stale:   c.Without == writesCarryUID || c.Without == oneObservation,
		answers: map[call]answer{}, prints: map[view]int{}, texts: map[string]int{}, proofs: map[deathCall]lease.Basis{},
	}
}

// initial is two pods that wait for a new, free Lease; or for one to be made,
// where Leases may be deleted.
func (m *model) initial() state {
	s := state{Left: m.Budget}
	if m.Budget.Deletions == 0 || m.CarryFromPods {
		s.Lease = m.create(owner{})
		s.Lease.UID, s.Lease.RV, s.Lease.Closed = 1, 1, notClosed
	}
	for i := range s.Pod {
		p := &s.Pod[i]
		p.Gated = m.Gated
		if !m.Gated {
			p.Now.State = running
			p.Report = p.Now
			s.Agent[i].Phase = idle
		}
	}
	return s
}

// steps emits every step that is possible in a state.
func (m *model) steps(s *state) {
	for i := range s.Observer {
		m.observerSteps(s, i)
	}
	for a := range s.Agent {
		m.agentSteps(s, a)
	}
	for p := range s.Pod {
		m.podSteps(s, p)
	}
	m.environmentSteps(s)
}

// do emits the step that change makes, unless change refuses it.
func (m *model) do(s *state, l label, change func(*state) bool) {
	n := *s
	if change(&n) {
		m.emit(l, &n)
	}
}
