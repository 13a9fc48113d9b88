// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1alpha1"
)

// A failed run is counted once: with the write that puts its term on record, that
// says how many restarts in place were looked at, or that drops the ordinal of
// its pod. That the work was stopped since its lease was lost is no failure of
// the work.

func (p *planner) countFailures(n int32) {
	if n > 0 {
		p.status.Failed += n
		p.status.LastFailureTime = metav1.NewTime(p.Now)
	}
}

// countTerm counts a term that is put on record now, if its run has failed and
// the pod may go on. That of a pod which has ended is counted with its ordinal,
// when the pod's status is sure to be known.
func (p *planner) countTerm(t v1alpha1.TermStatus) {
	if !runsToCompletion(p.Job) {
		return
	}
	switch v1alpha1.Outcome(t.Reason) {
	case v1alpha1.OutcomeFailed:
		p.countFailures(1)
	case v1alpha1.OutcomeDied, v1alpha1.OutcomeRestarted:
		if each := p.podOf(t.UID); each != nil && p.crashed(*each) {
			p.countFailures(1)
		}
	}
}

// crashed reports whether the work's container, which the kubelet starts again,
// ended without its agent having said how. While the kubelet's report is yet to
// come it has not.
func (p *planner) crashed(each pod) bool {
	end := lastEnd(p.Job, each.Pod)
	return restartsInPlace(each.Pod) && p.reportsTerms() && !each.deleting() && !disrupted(each.Pod) &&
		end != nil && end.ExitCode != 0 && !p.excused(end)
}

// reportsTerms reports whether every run is a term of its own. Where the kubelet
// stands for the holder, one term goes on over its restarts.
func (p *planner) reportsTerms() bool { return RenewedBy(p.Job) != v1alpha1.RenewedByKubelet }

// restartsInPlace: the pod's own policy counts, which stays when the job's is
// changed.
func restartsInPlace(pod *corev1.Pod) bool {
	return pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure
}

// countRestarts counts the failures that the kubelet answered by starting the
// work again, where nothing else tells of them.
func (p *planner) countRestarts() {
	if p.reportsTerms() {
		return
	}
	for _, each := range p.pods {
		if p.active(each.ordinal) && restartsInPlace(each.Pod) && each.token > 0 {
			p.countFailures(p.takeIn(each.Pod, restartsOf(each.Pod)))
		}
	}
}

// takeIn records that so many restarts of the pod were looked at, and returns
// how many of them are new. A stale view has fewer, and none is new.
func (p *planner) takeIn(pod *corev1.Pod, count int32) int32 {
	if count == 0 {
		return 0
	}
	i := slices.IndexFunc(p.status.Restarts, func(r v1alpha1.PodRestarts) bool { return r.Pod == pod.Name })
	if i < 0 {
		i = len(p.status.Restarts)
		p.status.Restarts = append(p.status.Restarts, v1alpha1.PodRestarts{Pod: pod.Name})
	}
	seen := &p.status.Restarts[i]
	if seen.UID != pod.UID {
		*seen = v1alpha1.PodRestarts{Pod: pod.Name, UID: pod.UID}
	}
	fresh := max(count-seen.Count, 0)
	seen.Count += fresh
	return fresh
}

// dropRestarts forgets the pods whose ordinals are given up.
func (p *planner) dropRestarts() {
	p.status.Restarts = slices.DeleteFunc(p.status.Restarts, func(r v1alpha1.PodRestarts) bool {
		return !p.active(ordinalOf(p.Job, r.Pod))
	})
}

func restartsOf(pod *corev1.Pod) (n int32) {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, s := range statuses {
			n += s.RestartCount
		}
	}
	return n
}

// runFailed reports whether the pod's end was its work's failure that no term has
// told of: not somebody's wish, nor the loss of its lease, nor a disruption.
func (p *planner) runFailed(each pod) bool {
	outcome := p.recordedOutcome(each)
	if disrupted(each.Pod) {
		return false
	}
	if outcome == v1alpha1.OutcomeWithdrawn && restartsInPlace(each.Pod) {
		return restartsOf(each.Pod) > 0 // Its work could not even begin.
	}
	if each.Status.Phase != corev1.PodFailed || p.excused(lastEnd(p.Job, each.Pod)) {
		return false
	}
	switch outcome {
	case v1alpha1.OutcomeWithdrawn:
		return true // It ended before its work began; its deletion is the answer.
	case v1alpha1.OutcomeDied, v1alpha1.OutcomeUnknown:
		return rejected(each.Pod) || (!each.deleting() && !restartsInPlace(each.Pod))
	case "":
		return rejected(each.Pod) || !each.deleting()
	}
	return false
}

// excused reports whether an end of the work's container was not the work's
// failure: its agent says that the term was lost, or the API server out of
// reach. Work that itself ends with such a status has failed, and its agent has
// said so on the Lease.
func (p *planner) excused(end *corev1.ContainerStateTerminated) bool {
	return RenewedBy(p.Job) == v1alpha1.RenewedByAgent && end != nil &&
		(end.ExitCode == v1alpha1.AgentExitLost || end.ExitCode == v1alpha1.AgentExitNoAPI)
}

// lastEnd is the latest end of the work's container; nil: none was reported.
func lastEnd(job *v1alpha1.SingletonJob, pod *corev1.Pod) *corev1.ContainerStateTerminated {
	s := workStatus(job, pod)
	if s == nil {
		return nil
	}
	if s.State.Terminated != nil {
		return s.State.Terminated
	}
	return s.LastTerminationState.Terminated
}

func workStatus(job *v1alpha1.SingletonJob, pod *corev1.Pod) *corev1.ContainerStatus {
	name := job.Spec.Container
	if name == "" && len(pod.Spec.Containers) > 0 {
		name = pod.Spec.Containers[0].Name
	}
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &pod.Status.ContainerStatuses[i]
}

// rejected reports whether the pod's kubelet did not admit it (OutOfcpu,
// NodeAffinity). Its deletion, which ends its term, came after that.
func rejected(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && strings.HasPrefix(pod.Status.Message, "Pod was rejected: ")
}

// recordedOutcome is how the pod's newest term ended; empty: it had none.
func (p *planner) recordedOutcome(each pod) v1alpha1.Outcome {
	for _, t := range p.status.History {
		if t.UID == each.UID {
			return v1alpha1.Outcome(t.Reason)
		}
	}
	return ""
}

func disrupted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
	})
}
