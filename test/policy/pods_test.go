// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1alpha1"
)

const (
	roleKey    = v1alpha1.LabelRole
	endedKey   = v1alpha1.AnnotationEndedToken
	versionKey = v1alpha1.AnnotationEndedVersion
	leaseKey   = v1alpha1.LabelLease
	jobKey     = v1alpha1.LabelJob
	readyKey   = v1alpha1.AnnotationWasReady
	oldToken   = "100"

	roleLeader  = "leader"
	roleStandby = "standby"
)

// podState is what a pod is like before an attempt.
type podState string

const (
	noPod podState = "no pod"
	// gated waits for its grant.
	gated podState = "gated"
	// plain has nothing of ours.
	plain podState = "plain"
	// leader was granted its lease, and an earlier term of it has ended.
	leader podState = "leader"
	// owned is a job's, something else's too, and gated.
	owned podState = "owned"
)

// podAttempt is one write to one pod.
type podAttempt struct {
	name    string
	actors  []actor
	state   podState
	change  func(*corev1.Pod)
	write   func(context.Context, client.Client, *corev1.Pod) error // default: update
	refused bool
}

func tryPods(t *testing.T, w *world, enforced bool) {
	forged := slices.Concat(forgedPodSteps, forgedMetadata, forgedBelonging)
	for _, attempt := range slices.Concat(podSteps, morePodSteps, belongingSteps, forged, repairedPods(forged)) {
		for _, a := range attempt.actors {
			t.Run(fmt.Sprintf("%s: %s", a, attempt.name), func(t *testing.T) {
				t.Parallel()
				attempt.try(t, w, a, enforced)
			})
		}
	}
}

func (p podAttempt) try(t *testing.T, w *world, a actor, enforced bool) {
	before := w.podIn(t, p.state)
	mine := before.DeepCopy()
	if p.change != nil {
		p.change(mine)
	}
	write := p.write
	if write == nil {
		write = updatePod
	}
	w.judge(t, write(t.Context(), w.client(a), mine), p.refused, enforced)
	affected, err := w.affected(t.Context(), before)
	if err != nil {
		t.Fatal(err)
	}
	if want := !enforced || !p.refused; affected != want {
		t.Errorf("the pod was affected: %t, want %t", affected, want)
	}
}

func (w *world) podIn(t *testing.T, s podState) *corev1.Pod {
	t.Helper()
	pod := w.newPod(w.unique("pod"), nil)
	switch s {
	case noPod:
		return pod
	case plain:
		pod.Labels, pod.Spec.SchedulingGates = nil, nil
	case leader:
		pod.Spec.SchedulingGates = nil
		pod.Labels[roleKey] = roleLeader
		pod.Annotations = map[string]string{tokenKey: oldToken, endedKey: "90", readyKey: oldToken}
	case owned:
		ownedByJob(pod)
		pod.OwnerReferences = append(pod.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "theirs", UID: "theirs"})
		pod.Labels[jobKey] = "some"
	}
	if err := w.client(breakGlass).Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// podSteps must pass.
var podSteps = []podAttempt{
	{name: "creates a candidate", actors: []actor{manager, user}, state: noPod, write: createPod},
	{name: "creates a job's pod", actors: []actor{manager, breakGlass}, state: noPod, change: ownedByJob, write: createPod},
	{name: "creates a pod of something else", actors: []actor{user}, state: noPod, change: ownedBy("batch/v1"), write: createPod},
	{name: "stamps the token and opens the gate", actors: []actor{manager, breakGlass}, state: gated, write: grantPod},
	{name: "raises the token", actors: []actor{manager, breakGlass}, state: leader, change: podAnnotation(tokenKey, "1000")},
	{name: "stamps a warm pod", actors: []actor{manager}, state: plain, change: podAnnotation(tokenKey, "9")},
	{name: "raises the ended token", actors: []actor{manager}, state: leader, change: podAnnotation(endedKey, oldToken)},
	{name: "marks an end again", actors: []actor{manager}, state: leader, change: podAnnotation(versionKey, "12345")},
	{name: "makes it a standby", actors: []actor{manager}, state: leader, change: podLabel(roleKey, roleStandby)},
	{name: "takes the role away", actors: []actor{manager}, state: leader, change: podLabel(roleKey, "")},
	{name: "moves it to another lease", actors: []actor{manager}, state: leader, change: podLabel(leaseKey, "other")},
	{name: "lowers the token", actors: []actor{breakGlass}, state: leader, change: podAnnotation(tokenKey, "1")},
	{name: "opens the gate", actors: []actor{breakGlass}, state: gated, change: openGate},

	{name: "asks for a lease", actors: []actor{user}, state: plain, change: podLabel(leaseKey, "some")},
	{name: "labels a candidate", actors: []actor{user, holder}, state: gated, change: podLabel("app", "work")},
	{name: "annotates a leader", actors: []actor{user, holder}, state: leader, change: podAnnotation("note", "mine")},
	{name: "changes what has nothing of ours", actors: []actor{user}, state: plain, change: podLabel("app", "work")},
	{name: "reports a leader's status", actors: []actor{user}, state: leader, change: ready, write: updateStatus},
	{name: "binds a leader", actors: []actor{user}, state: leader, write: bind(nil, nil)},
	{name: "deletes", actors: []actor{user, garbageCollector, namespaceController}, state: gated, write: deletePod},
}

var ownedByJob = ownedBy(v1alpha1.GroupVersion.String())

// ownedBy makes something of that version the pod's controller.
func ownedBy(version string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		yes := true
		p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{
			APIVersion: version, Kind: "SomeKind", Name: "some", UID: "0b1a7c1e-9a1c-4f6e-8a39-6d2f6f1f0001", Controller: &yes})
	}
}

// forgedPodSteps must be refused.
var forgedPodSteps = []podAttempt{
	{name: "creates one with a token", actors: []actor{user, holder, manager}, state: noPod,
		change: podAnnotation(tokenKey, "999"), write: createPod, refused: true},
	{name: "creates one with an ended token", actors: []actor{user, manager}, state: noPod,
		change: podAnnotation(endedKey, "999"), write: createPod, refused: true},
	{name: "creates one with a role", actors: []actor{user, manager}, state: noPod,
		change: podLabel(roleKey, roleLeader), write: createPod, refused: true},

	{name: "creates a job's pod", actors: []actor{user, holder, otherPod}, state: noPod, change: ownedByJob, write: createPod, refused: true},
	{name: "gives a candidate to a job", actors: []actor{user, holder}, state: gated, change: ownedByJob, refused: true},
	{name: "gives a plain pod to a job", actors: []actor{user}, state: plain, change: ownedByJob, refused: true},

	{name: "opens the gate", actors: []actor{user, holder, otherPod}, state: gated, change: openGate, refused: true},
	{name: "opens the gate by a patch", actors: []actor{user, holder}, state: gated, write: grantPod, refused: true},
	{name: "opens the gate by a merge", actors: []actor{user}, state: gated, write: mergePatch(`{"spec":{"schedulingGates":null}}`), refused: true},
	{name: "swaps the gate", actors: []actor{user}, state: gated, change: func(p *corev1.Pod) {
		p.Labels = nil
		openGate(p)
	}, refused: true},

	{name: "stamps a token", actors: []actor{user, holder, otherPod}, state: plain, change: podAnnotation(tokenKey, "999"), refused: true},
	{name: "raises the token", actors: []actor{user, holder, otherPod}, state: leader, change: podAnnotation(tokenKey, "999"), refused: true},
	{name: "raises the token through the status", actors: []actor{user, holder}, state: leader,
		change: podAnnotation(tokenKey, "999"), write: updateStatus, refused: true},
	{name: "stamps a token through the status", actors: []actor{user}, state: plain,
		change: podAnnotation(tokenKey, "999"), write: updateStatus, refused: true},
	{name: "stamps a token through a binding", actors: []actor{user, holder, manager}, state: plain,
		write: bind(map[string]string{tokenKey: "999"}, nil), refused: true},
	{name: "stamps a token through bindings", actors: []actor{user, manager}, state: plain,
		write: bindDirectly(map[string]string{tokenKey: "999"}, nil), refused: true},
	{name: "raises the token through a binding", actors: []actor{user}, state: leader,
		write: bind(map[string]string{tokenKey: "999"}, nil), refused: true},
	{name: "removes the token", actors: []actor{user, holder, manager}, state: leader, change: podAnnotation(tokenKey, ""), refused: true},
	{name: "removes all annotations", actors: []actor{user}, state: leader, write: mergePatch(`{"metadata":{"annotations":null}}`), refused: true},
	{name: "lowers the token", actors: []actor{user, holder, manager}, state: leader, change: podAnnotation(tokenKey, "99"), refused: true},
	{name: "lowers the token to what sorts above it", actors: []actor{manager}, state: leader, change: podAnnotation(tokenKey, "9"), refused: true},
	{name: "writes a token that is no number", actors: []actor{manager}, state: leader, change: podAnnotation(tokenKey, "0x100"), refused: true},
	{name: "writes an ended token", actors: []actor{user, holder}, state: leader, change: podAnnotation(endedKey, oldToken), refused: true},
	{name: "writes an ended version", actors: []actor{user, holder}, state: leader, change: podAnnotation(versionKey, "12345"), refused: true},
	{name: "lowers the ended token", actors: []actor{user, manager}, state: leader, change: podAnnotation(endedKey, "89"), refused: true},

	{name: "makes itself leader", actors: []actor{user, holder}, state: plain, change: podLabel(roleKey, roleLeader), refused: true},
	{name: "makes itself leader through the status", actors: []actor{user, holder}, state: plain,
		change: podLabel(roleKey, roleLeader), write: updateStatus, refused: true},
	{name: "gives up its role", actors: []actor{user, holder}, state: leader, change: podLabel(roleKey, ""), refused: true},
	{name: "changes its role", actors: []actor{user, holder}, state: leader, change: podLabel(roleKey, roleStandby), refused: true},
	{name: "asks for another lease", actors: []actor{user, holder}, state: leader, change: podLabel(leaseKey, "other"), refused: true},
	{name: "leaves its lease", actors: []actor{user, holder}, state: gated, change: podLabel(leaseKey, ""), refused: true},
	{name: "leaves its lease through the status", actors: []actor{user}, state: leader,
		change: podLabel(leaseKey, ""), write: updateStatus, refused: true},
}

func createPod(ctx context.Context, c client.Client, p *corev1.Pod) error { return c.Create(ctx, p) }

func updatePod(ctx context.Context, c client.Client, p *corev1.Pod) error { return c.Update(ctx, p) }

func deletePod(ctx context.Context, c client.Client, p *corev1.Pod) error { return c.Delete(ctx, p) }

func updateStatus(ctx context.Context, c client.Client, p *corev1.Pod) error {
	return c.Status().Update(ctx, p)
}

// grantPod is the patch with which the manager starts a cold candidate.
func grantPod(ctx context.Context, c client.Client, p *corev1.Pod) error {
	patch := fmt.Sprintf(`[{"op":"test","path":"/metadata/uid","value":%q},
		{"op":"test","path":"/spec/schedulingGates/0/name","value":%q},
		{"op":"add","path":"/metadata/annotations","value":{%q:"200"}},
		{"op":"remove","path":"/spec/schedulingGates/0"}]`, p.UID, v1alpha1.SchedulingGate, tokenKey)
	return c.Patch(ctx, p, client.RawPatch(types.JSONPatchType, []byte(patch)))
}

func mergePatch(patch string) func(context.Context, client.Client, *corev1.Pod) error {
	return func(ctx context.Context, c client.Client, p *corev1.Pod) error {
		return c.Patch(ctx, p, client.RawPatch(types.MergePatchType, []byte(patch)))
	}
}

// podAnnotation sets an annotation; an empty value removes it.
func podAnnotation(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if value == "" {
			delete(p.Annotations, key)
			return
		}
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value)
	}
}

// podLabel sets a label; an empty value removes it.
func podLabel(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if value == "" {
			delete(p.Labels, key)
			return
		}
		metav1.SetMetaDataLabel(&p.ObjectMeta, key, value)
	}
}

func openGate(p *corev1.Pod) { p.Spec.SchedulingGates = nil }

func ready(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}
