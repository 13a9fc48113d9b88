// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	coordinationv1 "k8s.io/api/coordination/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// What controllers do for pods in which nothing confirms, and with pods that are
// deleted.

// confirmForStep: confirm for the holder's pod, once it was seen to carry the token
// behind its gate. What was seen may be old, so that nothing else is asked of
// the pod as it is.
func (m *model) confirmForStep(s *state, i int) {
	v := &s.Observer[i].View
	if !m.kubelet() || !v.granted() {
		return
	}
	g := v.Grantee
	if p := &s.Pod[g-1]; p.Token != v.Token || !p.Gated {
		return
	}
	a := m.ask(call{Function: callConfirmFor, View: *v, Who: g})
	if a.Class == done {
		m.do(s, label{Kind: confirmsFor, Who: i, Pod: int(g) - 1}, func(n *state) bool { return m.commit(n, a.View, byManager) })
	}
}

// grant calls lease's Grant.
func (m *model) grant(o lease.Observation, to who, basis lease.Basis) (*coordinationv1.Lease, error) {
	l, err := o.Grant(holderName(to), "issuer", basis, epoch)
	if err == nil && m.kubelet() && m.Without == confirmedAfterStamp {
		l.Annotations[v1alpha1.AnnotationStarted] = uidOf(to)
	}
	return l, err
}

// freeStep: let go of a pod that is being deleted and, by a Lease that was read
// after it, has no open term. A later write of the pod voids that reading.
func (m *model) freeStep(s *state, i int) {
	read := s.Observer[i].Pod
	if read.Pod == nobody || !read.Over || !s.Pod[read.Pod-1].Deleting || s.Pod[read.Pod-1].Gone {
		return
	}
	p := int(read.Pod) - 1
	m.do(s, label{Kind: freesPod, Who: i, Pod: p}, func(n *state) bool {
		n.Pod[p].Gone = true
		touch(n, p)
		return true
	})
}

// deletePodSteps: somebody deletes a pod; its finalizer keeps it.
func (m *model) deletePodSteps(s *state) {
	if s.Left.PodDeletions == 0 {
		return
	}
	for p := range s.Pod {
		if s.Pod[p].Deleting {
			continue
		}
		m.do(s, label{Kind: deletesPod, Who: p}, func(n *state) bool {
			n.Left.PodDeletions--
			n.Pod[p].Deleting = true
			touch(n, p)
			return true
		})
	}
}

// inspectProvable: a term that only a proof can end has a pod that can prove it.
func (m *model) inspectProvable(s *state) {
	if m.kubelet() && m.forbid() && s.Lease.live() && s.Pod[s.Lease.Grantee-1].Gone {
		s.Broken = l1EndCanBeProven
	}
}
