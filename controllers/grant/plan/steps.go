// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// grant gives the lease to pod and then stamps it. false: it cannot, and the plan
// says why.
func (d decider) grant(pod *corev1.Pod, basis lease.Basis) (Plan, bool) {
	l, err := d.Grant(holderOf(pod), d.Issuer, basis, d.Now)
	switch {
	case errors.Is(err, lease.ErrNoToken):
		return d.blocked(v1alpha1.BlockedNoToken, err.Error()), false
	case err != nil:
		return note(err.Error()), false // Not recorded yet: the owner's write comes as an event.
	}
	token := l.Annotations[v1alpha1.AnnotationToken]
	p := note("grant to " + pod.Name)
	p.Actions = []Action{
		UpdateLease{l, Event{Reason: ReasonGranted, Action: ActionGrant, Pod: pod, Basis: string(basis.Kind),
			Note: fmt.Sprintf("Granted to pod %s with fencing token %s", pod.Name, token)}},
		d.firstStamp(pod, token),
	}
	return p, true
}

// stamp makes the holder's pod say what the Lease says, where it does not yet. A
// pod that is marked for this term's end is never stamped with it: whoever
// marked it may be about to write the end.
func (d decider) stamp() Plan {
	pod := d.Holder
	if pod == nil || d.HolderReadLate || pod.DeletionTimestamp != nil || d.stamped() || d.marked() {
		return Plan{}
	}
	p := note("the pod does not say yet what the Lease says")
	switch live := d.r.Phase() == lease.Live; {
	case live:
		p.Actions = []Action{StampPod{pod, decimal(d.r.Token), gate(pod)}}
	case d.confirms(pod) && d.needsGuard(pod):
		p.Actions = []Action{GuardPod{pod}} // Its policy was changed since the grant.
	case d.confirms(pod) && d.carries():
		return Plan{} // The Lease is next.
	default:
		p.Actions = []Action{d.firstStamp(pod, decimal(d.r.Token))}
	}
	return p
}

func (d decider) stamped() bool {
	return gate(d.Holder) < 0 && d.carries()
}

// carries reports whether the holder's pod carries the grant's token.
func (d decider) carries() bool {
	return d.Holder.Annotations[v1alpha1.AnnotationToken] == decimal(d.r.Token)
}

func (d decider) marked() bool {
	return d.Holder.Annotations[v1alpha1.AnnotationEndedToken] == decimal(d.r.Token)
}

// evict removes the holder's pod.
func (d decider) evict(why string) Plan {
	if d.Holder == nil || d.Holder.DeletionTimestamp != nil {
		return Plan{}
	}
	p := note("evict: " + why)
	p.Actions = []Action{removal(d.Holder, true, why)}
	return p
}

func removal(pod *corev1.Pod, warning bool, why string) RemovePod {
	return RemovePod{Pod: pod, Event: Event{
		Warning: warning, Reason: ReasonEvicted, Action: ActionEvict, Pod: pod,
		Note: fmt.Sprintf("Evicted pod %s: %s", pod.Name, why),
	}}
}

// clearAway removes what the end of a term should have removed, if whoever
// wrote that end got no further.
func (d decider) clearAway() []Action {
	var actions []Action
	for _, pod := range d.Pods {
		if d.leftover(pod) {
			actions = append(actions, removal(pod, true, fmt.Sprintf("its term with token %d has ended (%s)", d.r.Released, d.r.Outcome)))
		}
	}
	return actions
}

// leftover reports whether the pod's term was the last to end, in a way that
// takes the pod with it. One that a PodDisruptionBudget keeps stays a candidate.
func (d decider) leftover(pod *corev1.Pod) bool {
	switch {
	case d.r.Released == 0 || !d.lostLast(pod),
		pod.DeletionTimestamp != nil, hasEnded(pod), d.EvictionRefused[pod.UID],
		d.r.Open() && holderOf(pod) == d.r.GrantHolder:
		return false
	}
	switch d.r.Outcome {
	case v1alpha1.OutcomeLapsed, v1alpha1.OutcomeVouched:
		return true
	case v1alpha1.OutcomeWithdrawn:
		return Ours(pod) // Others' pods are never removed before they worked.
	}
	return false
}

// lostLast reports whether the last term to end was the pod's: its mark says so
// or, where it could not be marked, the Lease.
func (d decider) lostLast(pod *corev1.Pod) bool {
	return pod.Annotations[v1alpha1.AnnotationEndedToken] == decimal(d.r.Released) ||
		(!d.r.Open() && holderOf(pod) == d.r.GrantHolder)
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
	delete(l.Annotations, v1alpha1.AnnotationBlocked)
	return UpdateLease{l, Event{Reason: ReasonUnblocked, Action: ActionWait, Note: "No longer blocked by " + d.blockedReason()}}
}

func blockedText(reason, message string) string { return reason + ": " + message }

// blockedReason is why the Lease says that it is blocked; empty: it does not.
func (d decider) blockedReason() string {
	reason, _, _ := strings.Cut(d.Lease.Annotations[v1alpha1.AnnotationBlocked], ": ")
	return reason
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

func (d decider) closed() bool { return d.r.Closed != "" || d.Lease.DeletionTimestamp != nil }

// takingUp reports whether a pod that nothing confirms for has not been ready
// once.
func (d decider) takingUp() bool {
	return ByKubelet(d.r) && d.Holder != nil && d.Holder.DeletionTimestamp == nil && !d.HolderWasReady
}

// noteReady writes down that the pod has been ready, which else only this
// process knows.
func (d decider) noteReady() []Action {
	pod, token := d.Holder, decimal(d.r.Token)
	if !ByKubelet(d.r) || pod == nil || pod.DeletionTimestamp != nil || !d.HolderWasReady || pod.Annotations[v1alpha1.AnnotationWasReady] == token {
		return nil
	}
	return []Action{NoteReady{pod, token}}
}

// endedUnproven reports whether the holder's pod has ended, says its phase, and
// nobody has deleted it: what a kubelet refused to start, or evicted, does not
// run again, but only the report that follows its deletion proves that.
func (d decider) endedUnproven() bool {
	return d.Holder != nil && d.Holder.DeletionTimestamp == nil && hasEnded(d.Holder)
}

// endText says how the pod's phase says that it has ended.
func (d decider) endText() string {
	s := d.Holder.Status
	return fmt.Sprintf("its phase is %s (%s)", s.Phase, orElse(s.Message, orElse(s.Reason, "no reason is given")))
}

// lateTakeUp reports whether it has not been within the take-up deadline.
func (d decider) lateTakeUp() bool { return d.takingUp() && d.Age >= d.r.Config.TakeUp }

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

// vouchWait is when a force delete will count; zero: there is none, or it does.
func (d decider) vouchWait() time.Duration {
	if d.ForceDeletedFor <= 0 {
		return 0
	}
	return max(d.forceDeleteWait()-d.ForceDeletedFor, 0)
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
