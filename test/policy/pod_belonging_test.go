// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// ordinary may write pods, and are not the manager.
var ordinary = []actor{user, holder, otherPod, garbageCollector, namespaceController, controllerManager}

// belongingSteps must pass: what may be done to whose a pod is.
var belongingSteps = []podAttempt{
	{name: "takes owners away", actors: []actor{manager}, state: owned, change: disown},
	{name: "takes the job's label away", actors: []actor{manager}, state: owned, change: podLabel(jobKey, "")},
	{name: "takes another owner away", actors: ordinary, state: owned, change: func(p *corev1.Pod) { p.OwnerReferences = p.OwnerReferences[:1] }},
	{name: "turns the owners around", actors: ordinary, state: owned, change: func(p *corev1.Pod) { slices.Reverse(p.OwnerReferences) }},
	{name: "unblocks the deletion of its job", actors: ordinary, state: owned, change: ofJob(func(o *metav1.OwnerReference) { o.BlockOwnerDeletion = ptr.To(false) })},
	{name: "labels a job's pod", actors: ordinary, state: owned, change: podLabel("app", "work")},
	{name: "labels what is no job's", actors: []actor{user}, state: plain, change: podLabel(jobKey, "some")},
}

// forgedBelonging must be refused: the job would not find such a pod again, which
// may hold its lease and has its finalizer.
var forgedBelonging = []podAttempt{
	{name: "takes owners away", actors: ordinary, state: owned, change: disown, refused: true},
	{name: "takes owners away by a patch", actors: ordinary, state: owned, write: mergePatch(`{"metadata":{"ownerReferences":null}}`), refused: true},
	{name: "takes the job away", actors: ordinary, state: owned, change: func(p *corev1.Pod) { p.OwnerReferences = p.OwnerReferences[1:] }, refused: true},
	{name: "takes the job's control away", actors: ordinary, state: owned, change: ofJob(func(o *metav1.OwnerReference) { o.Controller = nil }), refused: true},
	{name: "gives it to a job of another name", actors: ordinary, state: owned, change: ofJob(func(o *metav1.OwnerReference) { o.Name = "other" }), refused: true},
	{name: "gives it to another kind", actors: ordinary, state: owned, change: ofJob(func(o *metav1.OwnerReference) { o.Kind = "Other" }), refused: true},
	{name: "gives it to another group", actors: ordinary, state: owned, change: ofJob(func(o *metav1.OwnerReference) { o.APIVersion = "v1" }), refused: true},
	{name: "leaves its job", actors: ordinary, state: owned, change: podLabel(jobKey, ""), refused: true},
	{name: "goes to another job", actors: ordinary, state: owned, change: podLabel(jobKey, "other"), refused: true},
	{name: "leaves its job through the status", actors: []actor{user}, state: owned, change: podLabel(jobKey, ""), write: updateStatus, refused: true},
	{name: "goes to a job through a binding", actors: []actor{user, holder, manager}, state: plain,
		write: bind(nil, map[string]string{jobKey: "some"}), refused: true},
	{name: "goes to a job through bindings", actors: []actor{user}, state: leader,
		write: bindDirectly(nil, map[string]string{jobKey: "some"}), refused: true},
}

func disown(p *corev1.Pod) { p.OwnerReferences = nil }

// ofJob changes the reference to the job that owns the pod.
func ofJob(change func(*metav1.OwnerReference)) func(*corev1.Pod) {
	return func(p *corev1.Pod) { change(&p.OwnerReferences[0]) }
}
