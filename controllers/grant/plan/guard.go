// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// Under Forbid the proof of a holder's death is in its pod's status, and an
// object that is gone proves nothing. A pod without a finalizer is gone the
// moment its kubelet has reported, and one that is bound to no node at once; so
// none is granted before it carries one.

// guarded reports whether the pod stays until its end was looked at.
func guarded(pod *corev1.Pod) bool {
	return slices.Contains(pod.Finalizers, v1alpha1.FinalizerLease) || slices.Contains(pod.Finalizers, v1alpha1.FinalizerOutcome)
}

func (d decider) needsGuard(pod *corev1.Pod) bool {
	return d.r.Config.OverlapPolicy == v1alpha1.OverlapForbid && !guarded(pod)
}

// release lets go of pods that are being deleted and hold no term any more.
func (d decider) release() []Action {
	var actions []Action
	for _, pod := range d.Pods {
		if !d.r.Open() || holderOf(pod) != d.r.GrantHolder {
			actions = append(actions, letGo(pod)...)
		}
	}
	return actions
}

func letGo(pod *corev1.Pod) []Action {
	if pod.DeletionTimestamp == nil || !slices.Contains(pod.Finalizers, v1alpha1.FinalizerLease) {
		return nil
	}
	return []Action{FreePod{pod}}
}

// Abandoned plans for pods that ask for a Lease which does not exist, or which
// Leasehold does not manage: nothing holds them.
func Abandoned(pods []*corev1.Pod) Plan {
	var p Plan
	for _, pod := range pods {
		p.Actions = append(p.Actions, letGo(pod)...)
	}
	return p
}

// ByKubelet reports whether the kubelet stands for the term's holder: its grant
// was its confirmation, and nothing renews it. What is configured since, for
// the next term, does not matter; only of a carried term nothing else is known.
func ByKubelet(r lease.Record) bool {
	if !r.Open() {
		return false
	}
	if r.Started == lease.StartedUnknown {
		return r.Config.RenewedBy == v1alpha1.RenewedByKubelet
	}
	return r.Started != "" && strings.HasSuffix(r.GrantHolder, lease.Holder("", r.Started))
}
