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

// Failed runs are counted once: with the write that drops the pod's ordinal, or
// that says how many restarts in place were looked at. That the work was stopped
// since its lease was lost is no failure of the work.

func (p *planner) countFailures(n int32) {
	if n > 0 {
		p.status.Failed += n
		p.status.LastFailureTime = metav1.NewTime(p.Now)
	}
}

// countRestarts counts the failures that the kubelet answered by starting the
// work again. A pod that only ever waited has not failed.
func (p *planner) countRestarts() {
	if RestartPolicy(p.Job) != corev1.RestartPolicyOnFailure {
		return
	}
	for _, each := range p.pods {
		if !p.active(each.ordinal) {
			continue
		}
		fresh := p.takeIn(each.Name, restartsOf(each.Pod))
		if fresh > 0 && p.excused(each, lastEnd(p.Job, each.Pod)) {
			fresh-- // The latest; of those before it, nothing is known.
		}
		if each.token > 0 {
			p.countFailures(fresh)
		}
	}
}

// takeIn records that so many restarts of the pod were looked at, and returns
// how many of them are new. A stale view has fewer, and none is new.
func (p *planner) takeIn(pod string, count int32) int32 {
	i := slices.IndexFunc(p.status.Restarts, func(r v1alpha1.PodRestarts) bool { return r.Pod == pod })
	if i < 0 {
		if count > 0 {
			p.status.Restarts = append(p.status.Restarts, v1alpha1.PodRestarts{Pod: pod, Count: count})
		}
		return count
	}
	fresh := max(count-p.status.Restarts[i].Count, 0)
	p.status.Restarts[i].Count += fresh
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

// runFailed reports whether the pod's end was its work's failure: not somebody's
// wish, nor the loss of its lease, nor a disruption.
func (p *planner) runFailed(each pod) bool {
	outcome := p.recordedOutcome(each)
	if outcome == v1alpha1.OutcomeFailed {
		return !restartedSince(p.Job, each.Pod)
	}
	if each.Status.Phase != corev1.PodFailed || disrupted(each.Pod) || p.excused(each, lastEnd(p.Job, each.Pod)) {
		return false
	}
	switch outcome {
	case v1alpha1.OutcomeWithdrawn:
		return true // It ended before its work began; its deletion is the answer.
	case "", v1alpha1.OutcomeDied, v1alpha1.OutcomeUnknown:
		return !each.deleting() || rejected(each.Pod)
	}
	return false
}

// excused reports whether an end of the work's container was not the work's
// failure: its agent says that the term was lost, or the API server out of
// reach. Work that itself ends with such a status has failed, and its agent has
// said so on the Lease.
func (p *planner) excused(each pod, end *corev1.ContainerStateTerminated) bool {
	return RenewedBy(p.Job) == v1alpha1.RenewedByAgent && end != nil &&
		(end.ExitCode == v1alpha1.AgentExitLost || end.ExitCode == v1alpha1.AgentExitNoAPI) &&
		p.recordedOutcome(each) != v1alpha1.OutcomeFailed
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

// restartedSince reports whether the work's latest end was followed by a start,
// so that it is among the restarts.
func restartedSince(job *v1alpha1.SingletonJob, pod *corev1.Pod) bool {
	s := workStatus(job, pod)
	return s != nil && s.State.Running != nil && s.RestartCount > 0
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
