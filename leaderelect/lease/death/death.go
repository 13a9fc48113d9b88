// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package death judges, from what a kubelet reported about a pod, whether the
// pod's work is proven to have ended. It is pure.
//
// A proof needs a report of every container's end by the kubelet that ran it.
// Phase, deletion, NotReady, a missing object or a deleted Node prove nothing:
// pod garbage collection writes phase Failed and removes the object of a pod
// whose processes still run on a machine that is merely cut off.
//
// # Containers that never started
//
// Of a pod that ends while its init containers run, the kubelet never reports an
// end of the containers behind them, since they never began: they stay Waiting
// for ever. They are taken for ended if all of this holds:
//
//   - The kubelet has reported the container as Waiting, without an earlier run
//     or a restart. No report at all is no proof.
//   - An ordinary init container before it is terminated now, with another
//     status than 0. A kubelet starts nothing behind an init container that has
//     not succeeded; and it runs an init container again only in a new sandbox,
//     when all of the old one is stopped. So at the time of that report nothing
//     behind the failed one ran.
//   - That init container will not run again, so that nothing behind it will:
//     either the kubelet made its final report on a pod that is deleted, after
//     which it starts nothing; or the pod's restart policy is Never, and no rule
//     of a container says otherwise.
//
// A container that waits behind init containers which all succeeded is not
// proven to have ended: it may be starting.
package death

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"leasehold.dev/leaderelect/lease"
)

// Proof is what a pod's status proves about one start of its work.
type Proof struct {
	// Dead: no process of that start is left, and none can start with its token.
	Dead bool
	// Succeeded: Dead, and every container that was to end ended with status 0.
	Succeeded bool
	// Reason says, in a few words, what the proof rests on, or what is missing.
	Reason string
}

// Reasons of the kubelet's own final report on the Ready condition.
const (
	reasonPodCompleted = "PodCompleted"
	reasonPodFailed    = "PodFailed"
)

// Judge judges a pod. started is the nonce of the start in question, as the
// Lease carries it; empty where the grant was never confirmed.
func Judge(pod *corev1.Pod, started string) Proof {
	if pod.DeletionTimestamp != nil && pod.Spec.NodeName == "" {
		return Proof{Dead: true, Reason: "deleted before it was bound to a node"}
	}
	if name, ok := unfinished(pod); !ok {
		return Proof{Reason: "container " + name + " is not reported to have ended"}
	}
	if pod.DeletionTimestamp != nil && finalReport(pod) {
		return Proof{Dead: true, Succeeded: succeeded(pod, started), Reason: "all containers ended or never started, and the kubelet made its final report"}
	}
	for _, c := range containers(pod) {
		if name, ok := cannotRestart(pod, c, started); !ok {
			return Proof{Reason: "container " + name + " may have restarted or may restart with the token"}
		}
	}
	return Proof{Dead: true, Succeeded: succeeded(pod, started), Reason: "all containers ended or never started"}
}

type container struct {
	spec   corev1.Container
	status *corev1.ContainerStatus
	init   bool
	// behind is the first init container before it that failed; nil: none did.
	behind *container
}

// containers pairs every container of the spec with its status, nil if the
// kubelet has reported none.
func containers(pod *corev1.Pod) []container {
	var all []container
	var failed *container
	for _, c := range pod.Spec.InitContainers {
		one := container{c, statusOf(pod.Status.InitContainerStatuses, c.Name), true, failed}
		if failed == nil && one.failedInit() {
			failed = &one
		}
		all = append(all, one)
	}
	for _, c := range pod.Spec.Containers {
		all = append(all, container{c, statusOf(pod.Status.ContainerStatuses, c.Name), false, failed})
	}
	return all
}

// failedInit reports whether it is an ordinary init container, not a sidecar,
// that is terminated now, without success.
func (c container) failedInit() bool {
	sidecar := c.spec.RestartPolicy != nil && *c.spec.RestartPolicy == corev1.ContainerRestartPolicyAlways
	return c.init && !sidecar && c.status != nil && c.status.State.Terminated != nil && c.status.State.Terminated.ExitCode != 0
}

// neverStarted reports whether the container was reported to wait, has not run
// before, and stands behind an init container that failed.
func (c container) neverStarted() bool {
	s := c.status
	return c.behind != nil && s != nil && s.State.Waiting != nil && s.LastTerminationState == (corev1.ContainerState{}) &&
		s.RestartCount == 0 && (s.Started == nil || !*s.Started)
}

func statusOf(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	i := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &statuses[i]
}

// unfinished names a container that has no report of an end at all.
func unfinished(pod *corev1.Pod) (string, bool) {
	all := containers(pod)
	if len(all) == 0 {
		return "(none)", false
	}
	for _, c := range all {
		if c.neverStarted() {
			continue
		}
		if c.status == nil || (c.status.State.Terminated == nil && c.status.LastTerminationState.Terminated == nil) {
			return c.spec.Name, false
		}
	}
	return "", true
}

// cannotRestart reports whether the container's end is final for this start:
// it is terminated and its restart policy lets it stay so, or its end carries
// the nonce of the start, so that whatever runs there now is a later one.
func cannotRestart(pod *corev1.Pod, c container, started string) (string, bool) {
	if c.neverStarted() {
		return c.spec.Name, pod.Spec.RestartPolicy == corev1.RestartPolicyNever && !restartsItself(pod, *c.behind)
	}
	if endOf(c.status, started) != nil {
		return "", true
	}
	t := c.status.State.Terminated
	if t == nil || restartsItself(pod, c) {
		return c.spec.Name, false
	}
	final := pod.Spec.RestartPolicy == corev1.RestartPolicyNever ||
		(pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure && t.ExitCode == 0) ||
		(c.init && t.ExitCode == 0)
	return c.spec.Name, final
}

// restartsItself reports whether its own policy or rules, or another's rule, may
// start the container again, whatever the pod's policy says.
func restartsItself(pod *corev1.Pod, c container) bool {
	return restartsAll(pod) || c.spec.RestartPolicy != nil || len(c.spec.RestartPolicyRules) > 0
}

// restartsAll reports whether the end of some container starts all of them
// again, whatever their own restart policies say.
func restartsAll(pod *corev1.Pod) bool {
	return slices.ContainsFunc(containers(pod), func(c container) bool {
		return slices.ContainsFunc(c.spec.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool {
			return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		})
	})
}

// endOf returns the end of the container that carries the nonce, as a line of
// its own in the termination message; nil if none does.
func endOf(s *corev1.ContainerStatus, started string) *corev1.ContainerStateTerminated {
	if started == "" || started == lease.StartedUnknown {
		return nil
	}
	for _, t := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
		if t != nil && slices.Contains(strings.Split(t.Message, "\n"), lease.TerminationMessage(started)) {
			return t
		}
	}
	return nil
}

// finalReport reports whether every container is terminated now, or never
// started, and the kubelet wrote its last word on the pod.
func finalReport(pod *corev1.Pod) bool {
	for _, c := range containers(pod) {
		if c.status.State.Terminated == nil && !c.neverStarted() {
			return false
		}
	}
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse &&
			(c.Reason == reasonPodCompleted || c.Reason == reasonPodFailed)
	})
}

// succeeded reports whether every container that was to end ended with status
// 0. Where an end carries the nonce of the start, that end is the one to judge:
// a later start may have ended otherwise, without having done the work. An end
// that carries another nonce says nothing about this start.
func succeeded(pod *corev1.Pod, started string) bool {
	for _, c := range containers(pod) {
		t := endOf(c.status, started)
		if t == nil {
			t = c.status.State.Terminated
			if t == nil || (!c.init && strings.Contains(t.Message, lease.TerminationMessage(""))) {
				return false
			}
		}
		if t.ExitCode != 0 && !c.init {
			return false
		}
	}
	return true
}
