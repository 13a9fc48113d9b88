// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1alpha1"
)

// morePodSteps must pass: what others than the manager do to pods of ours, and the
// manager's tokens at their bounds.
var morePodSteps = []podAttempt{
	{name: "deletes a leader", actors: append([]actor{user, holder}, collectors...), state: leader, write: deletePod},
	{name: "deletes in the foreground", actors: []actor{garbageCollector, controllerManager}, state: owned, change: podFinalizer(metav1.FinalizerDeleteDependents)},
	{name: "holds on to its outcome", actors: []actor{manager}, state: gated, change: podFinalizer(v1alpha1.FinalizerOutcome)},
	{name: "gives an owner of another kind", actors: []actor{user}, state: gated, change: ownedBy("apps/v1")},
	{name: "writes a job's pod", actors: []actor{user, holder}, state: owned, change: podLabel("app", "work")},
	{name: "annotates a leader by a patch", actors: []actor{user, holder}, state: leader, write: mergePatch(`{"metadata":{"annotations":{"note":"mine"}}}`)},
	{name: "binds with what is not ours", actors: []actor{user}, state: leader,
		write: bind(map[string]string{"note": "mine"}, map[string]string{"topology.kubernetes.io/zone": "a"})},
	{name: "binds directly", actors: []actor{user}, state: leader, write: bindDirectly(nil, nil)},

	{name: "raises the token by one", actors: []actor{manager}, state: leader, change: podAnnotation(tokenKey, "101")},
	{name: "raises the token by a digit", actors: []actor{manager}, state: leader, change: podAnnotation(tokenKey, "1000")},
	{name: "raises the token to the greatest", actors: []actor{manager}, state: leader, change: podAnnotation(tokenKey, "4611686018427387904")},
	{name: "says that it was ready", actors: []actor{manager}, state: gated, change: podAnnotation(readyKey, "9")},
	{name: "says that it was ready in this term", actors: []actor{manager}, state: leader, change: podAnnotation(readyKey, "101")},
}

// forgedMetadata must be refused: what a pod could be told through other
// resources, and at its creation.
var forgedMetadata = []podAttempt{
	{name: "creates one with an ended version", actors: []actor{user, manager}, state: noPod, change: podAnnotation(versionKey, "9"), write: createPod, refused: true},
	{name: "creates one that was ready", actors: []actor{user, manager}, state: noPod, change: podAnnotation(readyKey, "9"), write: createPod, refused: true},
	{name: "says that it was ready", actors: []actor{user, holder, otherPod}, state: plain, change: podAnnotation(readyKey, "9"), refused: true},
	{name: "says that it was ready in another term", actors: []actor{user, holder}, state: leader, change: podAnnotation(readyKey, "101"), refused: true},
	{name: "says that it was never ready", actors: []actor{user, holder}, state: leader, change: podAnnotation(readyKey, ""), refused: true},
	{name: "says that it was ready through the status", actors: []actor{user}, state: plain,
		change: podAnnotation(readyKey, "9"), write: updateStatus, refused: true},

	{name: "makes it leader through a binding", actors: []actor{user, holder, manager}, state: plain,
		write: bind(nil, map[string]string{roleKey: roleLeader}), refused: true},
	{name: "makes it leader through bindings", actors: []actor{user}, state: plain,
		write: bindDirectly(nil, map[string]string{roleKey: roleLeader}), refused: true},
	{name: "asks for another lease through a binding", actors: []actor{user, holder}, state: leader,
		write: bind(nil, map[string]string{leaseKey: "other"}), refused: true},
	{name: "asks for another lease through bindings", actors: []actor{user}, state: leader,
		write: bindDirectly(nil, map[string]string{leaseKey: "other"}), refused: true},

	{name: "asks for a lease through a binding", actors: []actor{user, manager}, state: plain,
		write: bind(nil, map[string]string{leaseKey: "some"}), refused: true},

	{name: "stamps a token by an apply", actors: []actor{user, holder}, state: plain,
		write: applyPod(`{"metadata":{"annotations":{"leasehold.dev/fencing-token":"999"}}}`), refused: true},
	{name: "creates one with a token by an apply", actors: []actor{user}, state: noPod,
		write: applyPod(`{"metadata":{"annotations":{"leasehold.dev/fencing-token":"9"}},"spec":{"containers":[{"name":"work","image":"work"}]}}`), refused: true},
	{name: "removes all labels", actors: []actor{user, holder}, state: leader, write: mergePatch(`{"metadata":{"labels":null}}`), refused: true},
	{name: "gives a leader to a job", actors: []actor{user, holder, garbageCollector, controllerManager}, state: leader, change: ownedByJob, refused: true},
	{name: "opens the gate of a job's pod", actors: []actor{user, holder, garbageCollector, namespaceController, controllerManager},
		state: owned, change: openGate, refused: true},

	{name: "repeats a digit less", actors: []actor{manager}, state: leader, change: podAnnotation(tokenKey, "10"), refused: true},
	{name: "writes a token with a leading zero", actors: []actor{manager}, state: leader, change: podAnnotation(tokenKey, "0999"), refused: true},
	{name: "writes a token with a sign", actors: []actor{manager}, state: leader, change: podAnnotation(tokenKey, "+999"), refused: true},
	{name: "writes a token that is too long", actors: []actor{manager}, state: leader, change: podAnnotation(tokenKey, "10000000000000000000"), refused: true},
	{name: "empties the token", actors: []actor{user, manager}, state: leader,
		write: mergePatch(`{"metadata":{"annotations":{"leasehold.dev/fencing-token":""}}}`), refused: true},
}

// repairedPods are the same writes by those who may do anything.
func repairedPods(forged []podAttempt) []podAttempt {
	var attempts []podAttempt
	for _, attempt := range forged {
		attempt.actors, attempt.refused = []actor{breakGlass}, false
		attempts = append(attempts, attempt)
	}
	return attempts
}

func podFinalizer(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Finalizers = append(p.Finalizers, name) }
}

func binding(p *corev1.Pod, annotations, labels map[string]string) *corev1.Binding {
	return &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Annotations: annotations, Labels: labels},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "node-1"},
	}
}

func bind(annotations, labels map[string]string) func(context.Context, client.Client, *corev1.Pod) error {
	return func(ctx context.Context, c client.Client, p *corev1.Pod) error {
		return c.SubResource("binding").Create(ctx, p, binding(p, annotations, labels))
	}
}

// bindDirectly uses the older resource that does the same.
func bindDirectly(annotations, labels map[string]string) func(context.Context, client.Client, *corev1.Pod) error {
	return func(ctx context.Context, c client.Client, p *corev1.Pod) error {
		return c.Create(ctx, binding(p, annotations, labels))
	}
}

func applyPod(body string) func(context.Context, client.Client, *corev1.Pod) error {
	return func(ctx context.Context, c client.Client, p *corev1.Pod) error {
		raw, err := applied(body, corev1.SchemeGroupVersion.WithKind("Pod"), p.Name)
		if err != nil {
			return err
		}
		return c.Patch(ctx, p, client.RawPatch(types.ApplyPatchType, raw), client.ForceOwnership, client.FieldOwner("somebody"))
	}
}
