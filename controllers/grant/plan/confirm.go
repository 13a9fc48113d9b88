// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"leasehold.dev/api/v1alpha1"
)

// Where nothing in a pod confirms (renewedBy Kubelet), this controller does, in
// steps of which each rests on the one before:
//
//	grant ──▶ stamp the token ──▶ confirm ──▶ take the gate
//	(Lease)        (pod)          (Lease)        (pod)
//
// A term that is confirmed has a pod whose end can be proven: whoever lets go of
// a pod reads the pod, then the Lease, and writes at the pod's version. If he
// read the pod before the stamp, that version is old. If after it, his Lease is
// newer than the grant, and says that the pod's term is open. So the finalizer
// that the stamp saw stays until the term is over. An instance whose cache still
// has a pod that is gone gets no further than the grant, which can be withdrawn
// at any moment.

// confirms reports whether this controller confirms grants to the pod.
func (d decider) confirms(pod *corev1.Pod) bool {
	return d.r.Config.RenewedBy == v1alpha1.RenewedByKubelet && gate(pod) >= 0
}

// firstStamp is the stamp of a new grant.
func (d decider) firstStamp(pod *corev1.Pod, token string) StampPod {
	if d.confirms(pod) {
		return StampPod{pod, token, -1}
	}
	return StampPod{pod, token, gate(pod)}
}

// confirm confirms for a pod that carries the token, and takes its gate.
func (d decider) confirm() (Plan, bool) {
	pod := d.Holder
	if !d.confirms(pod) || !d.carries() || d.marked() || d.needsGuard(pod) {
		return Plan{}, false
	}
	l, err := d.ConfirmFor(string(pod.UID), d.Now)
	if err != nil {
		return note(err.Error()), true
	}
	delete(l.Annotations, v1alpha1.AnnotationBlocked)
	p := note("confirm for " + pod.Name)
	p.Actions = []Action{UpdateLease{l, Event{
		Reason: ReasonConfirmed, Action: ActionGrant, Pod: pod,
		Note: fmt.Sprintf("Confirmed fencing token %d for pod %s, whose kubelet stands for it", d.r.Token, pod.Name),
	}}}
	if !d.HolderReadLate {
		p.Actions = append(p.Actions, StampPod{pod, decimal(d.r.Token), gate(pod)})
	}
	return p, true
}
