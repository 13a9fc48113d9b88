// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// grant gives the lease to pod and then stamps it.
func (d decider) grant(pod *corev1.Pod, basis lease.Basis) Plan {
	l, err := d.Grant(holderOf(pod), string(pod.UID), d.Issuer, basis, d.Now)
	switch {
	case errors.Is(err, lease.ErrNotRecorded):
		return note(err.Error())
	case errors.Is(err, lease.ErrNoToken):
		return d.blocked(v1alpha1.BlockedNoToken, err.Error())
	case err != nil:
		return note(err.Error())
	}
	token := l.Annotations[v1alpha1.AnnotationToken]
	p := note("grant to " + pod.Name)
	p.Actions = []Action{
		UpdateLease{l, Event{Reason: ReasonGranted, Action: ActionGrant, Pod: pod, Basis: string(basis.Kind),
			Note: fmt.Sprintf("Granted to pod %s with fencing token %s", pod.Name, token)}},
		StampPod{pod, token, gate(pod)},
	}
	return p
}

// stamp makes the holder's pod say what the Lease says. It does nothing where
// it does already.
func (d decider) stamp(why string) Plan {
	pod := d.Holder
	if pod == nil || d.HolderReadLate || pod.DeletionTimestamp != nil ||
		(gate(pod) < 0 && pod.Annotations[v1alpha1.AnnotationToken] == decimal(d.r.Token)) {
		return Plan{}
	}
	p := note(why)
	p.Actions = []Action{StampPod{pod, decimal(d.r.Token), gate(pod)}}
	return p
}

// revoke writes the old pod before its term ends. A pod that is gone can not be
// stamped by anybody.
func (d decider) revoke() []Action {
	if d.Holder == nil {
		return nil
	}
	return []Action{MarkEnded{d.Holder, decimal(d.r.Token)}}
}

// evict removes the holder's pod.
func (d decider) evict(why string) Plan {
	if d.Holder == nil || d.Holder.DeletionTimestamp != nil {
		return Plan{}
	}
	p := note("evict: " + why)
	p.Actions = []Action{RemovePod{Pod: d.Holder, Event: Event{
		Warning: true, Reason: ReasonEvicted, Action: ActionEvict, Pod: d.Holder,
		Note: fmt.Sprintf("Evicted pod %s: %s", d.Holder.Name, why),
	}}}
	return p
}

// blocked makes the Lease say why nothing can be granted.
func (d decider) blocked(reason, message string) Plan {
	p := note("blocked: " + message)
	text := blockedText(reason, message)
	if d.Lease.Annotations[v1alpha1.AnnotationBlocked] == text || d.Lease.Labels[v1alpha1.LabelManaged] != "true" {
		return p
	}
	l := d.Lease.DeepCopy()
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	l.Annotations[v1alpha1.AnnotationBlocked] = text
	p.Actions = []Action{UpdateLease{l, Event{Warning: true, Reason: ReasonBlocked, Action: ActionWait, Note: message}}}
	return p
}

func (d decider) unblock() Action {
	l := d.Lease.DeepCopy()
	reason, _ := splitBlocked(l.Annotations[v1alpha1.AnnotationBlocked])
	delete(l.Annotations, v1alpha1.AnnotationBlocked)
	return UpdateLease{l, Event{Reason: ReasonUnblocked, Action: ActionWait,
		Note: fmt.Sprintf("No longer blocked (%s): %s renews", reason, d.r.GrantHolder)}}
}

func (d decider) closed() bool { return d.r.Closed != "" || d.Lease.DeletionTimestamp != nil }

func (d decider) where() string {
	if d.Holder == nil {
		return " (its pod object is gone; only its own release, or the break-glass group, can end the term)"
	}
	return " from node " + d.Holder.Spec.NodeName
}

// lateTakeUp reports whether a pod that nothing confirms for has not become
// ready once within the take-up deadline.
func (d decider) lateTakeUp() bool {
	return d.Holder != nil && d.Holder.DeletionTimestamp == nil && !d.HolderWasReady && d.grantAge >= d.r.Config.TakeUp
}

// forceDeleteWait is how long a force delete must have been seen before it
// counts as somebody's word: the duration, the grace period that the process
// may still be using, and the lock delay.
func (d decider) forceDeleteWait() time.Duration {
	grace := 30 * time.Second
	if d.Holder != nil && d.Holder.Spec.TerminationGracePeriodSeconds != nil {
		grace = time.Duration(*d.Holder.Spec.TerminationGracePeriodSeconds) * time.Second
	}
	return d.r.Longest + grace + d.r.Config.LockDelay
}

// vouchWait is when a force delete will count; zero: there is none.
func (d decider) vouchWait() time.Duration {
	if d.ForceDeletedFor <= 0 {
		return 0
	}
	return max(d.forceDeleteWait()-d.ForceDeletedFor, time.Second)
}

// waitingFor says, from the pod's own conditions, what its start waits for.
func waitingFor(pod *corev1.Pod) string {
	if pod == nil {
		return "there is no pod"
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "not scheduled: " + orElse(c.Message, c.Reason)
		}
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, s := range statuses {
			if w := s.State.Waiting; w != nil {
				return fmt.Sprintf("container %s: %s", s.Name, orElse(w.Message, w.Reason))
			}
		}
	}
	return "its agent has not confirmed"
}

func orElse(a, b string) string {
	if a == "" {
		return b
	}
	return a
}
