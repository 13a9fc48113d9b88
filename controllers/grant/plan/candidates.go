// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// next returns the candidate to grant to: one that may be written before one
// that may not, one that no term was taken from before one that lost a term,
// then a running one before a cold one, then the oldest. nil: there is none.
func (d decider) next(except *corev1.Pod) *corev1.Pod {
	var best *corev1.Pod
	for _, pod := range d.Pods {
		if (except == nil || pod.UID != except.UID) && Eligible(pod, d.r.Config) && !d.impostor(pod) && !d.leftover(pod) && !d.finishing(pod) &&
			(best == nil || d.before(pod, best) < 0) {
			best = pod
		}
	}
	return best
}

func (d decider) before(a, b *corev1.Pod) int {
	return cmp.Or(
		cmp.Compare(d.unwritable(a), d.unwritable(b)),
		cmp.Compare(failings(a), failings(b)),
		cmp.Compare(coldness(a), coldness(b)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name),
	)
}

func (d decider) unwritable(pod *corev1.Pod) int {
	if d.Refused[PodWrite{UID: pod.UID}] != "" {
		return 1
	}
	return 0
}

func failings(pod *corev1.Pod) int {
	if pod.Annotations[v1alpha1.AnnotationEndedToken] != "" {
		return 1
	}
	return 0
}

func coldness(pod *corev1.Pod) int {
	if gate(pod) >= 0 {
		return 1
	}
	return 0
}

// finishing reports whether the pod's work has just ended for good: its agent
// released with the work's own outcome and is about to exit, which under Never
// ends the pod, though its kubelet has not said so yet. A grant to it would only
// have to be withdrawn.
func (d decider) finishing(pod *corev1.Pod) bool {
	return pod.Spec.RestartPolicy == corev1.RestartPolicyNever && holderOf(pod) == d.r.GrantHolder && !d.r.Open() &&
		(d.r.Outcome == v1alpha1.OutcomeFailed || d.r.Outcome == v1alpha1.OutcomeSucceeded)
}

// impostor reports whether the pod calls the Lease's owner by another kind. Who
// may make pods of a SingletonJob is known by the kind (see the policies), while
// any UID can be written into a reference; garbage collection takes a while to
// find out.
func (d decider) impostor(pod *corev1.Pod) bool {
	mine, its := metav1.GetControllerOf(pod), metav1.GetControllerOf(d.Lease)
	return mine != nil && its != nil && mine.UID == its.UID &&
		(mine.Kind != its.Kind || group(mine.APIVersion) != group(its.APIVersion))
}

// group leaves out the version, which an upgrade may change.
func group(apiVersion string) string {
	name, _, _ := strings.Cut(apiVersion, "/")
	return name
}

// Eligible reports whether the pod may be granted the lease now.
func Eligible(pod *corev1.Pod, config lease.Config) bool {
	switch {
	case pod.DeletionTimestamp != nil, hasEnded(pod),
		config.CandidateOwner != "" && owner(pod) != config.CandidateOwner:
		return false
	case gate(pod) >= 0:
		// Cold. Another gate could hold it back for ever with the lease in hand.
		return len(pod.Spec.SchedulingGates) == 1 && tookBack(pod)
	}
	// Warm. Something in it must be there to see the grant.
	return config.RenewedBy != v1alpha1.RenewedByKubelet && running(pod)
}

// tookBack reports whether no grant to the pod stands that could still take its
// gate.
func tookBack(pod *corev1.Pod) bool {
	token := pod.Annotations[v1alpha1.AnnotationToken]
	return token == "" || pod.Annotations[v1alpha1.AnnotationEndedToken] == token
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func running(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning &&
		slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Running != nil })
}

func owner(pod *corev1.Pod) string {
	for _, o := range pod.OwnerReferences {
		if o.Controller != nil && *o.Controller {
			return string(o.UID)
		}
	}
	return ""
}

// gate returns the index of our scheduling gate, or -1.
func gate(pod *corev1.Pod) int {
	return slices.IndexFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool {
		return g.Name == v1alpha1.SchedulingGate
	})
}

func holderOf(pod *corev1.Pod) string { return lease.Holder(pod.Name, string(pod.UID)) }
