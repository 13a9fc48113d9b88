// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/controllers/grant/plan"
	"leasehold.dev/internal/refusal"
)

// retryEviction is when to look again after a PodDisruptionBudget refused.
const retryEviction = 30 * time.Second

// result is what came of an action that did not fail. The zero value: done.
type result struct {
	// lost: another writer was faster. Nothing is wrong; the rest of the plan is
	// void; look again.
	lost bool
	// refused: the API server does not admit the write. What depends on it must
	// not be done.
	refused bool
	// again is when to look again for another reason; zero: no need.
	again time.Duration
}

// apply does the actions in order and stops at the first that fails or is lost.
// After one that is refused, only what depends on nothing is done.
func (r *Reconciler) apply(ctx context.Context, o *observation, p plan.Plan) (all result, _ error) {
	for _, a := range p.Actions {
		if _, free := a.(plan.FreePod); all.refused && !free {
			continue
		}
		one, err := r.applyOne(ctx, o, a)
		if one.lost || err != nil {
			return one, err
		}
		all.again = sooner(all.again, one.again)
		all.refused = all.refused || (one.refused && othersDependOn(a))
	}
	return all, nil
}

// othersDependOn reports whether what follows in a plan may be done only after
// the action. On the removal of a pod, its release, and what is noted on it,
// nothing depends.
func othersDependOn(a plan.Action) bool {
	switch a.(type) {
	case plan.RemovePod, plan.FreePod, plan.NoteReady:
		return false
	}
	return true
}

func (r *Reconciler) applyOne(ctx context.Context, o *observation, a plan.Action) (result, error) {
	switch a := a.(type) {
	case plan.UpdateLease:
		return r.updateLease(ctx, o, a)
	case plan.StampPod:
		return r.patch(ctx, o, a.Pod, "stamp", stampPatch(a))
	case plan.MarkEnded:
		return r.mark(ctx, o, a)
	case plan.RevokePod:
		return r.revoke(ctx, o, a)
	case plan.RemovePod:
		return r.remove(ctx, o, a)
	case plan.GuardPod:
		return r.patch(ctx, o, a.Pod, "guard", guardPatch(a.Pod))
	case plan.NoteReady:
		return r.noteReady(ctx, o, a)
	case plan.FreePod:
		return r.patch(ctx, o, a.Pod, "free", freePatch(a.Pod))
	}
	return result{}, fmt.Errorf("unknown action %T", a)
}

func (r *Reconciler) updateLease(ctx context.Context, o *observation, a plan.UpdateLease) (result, error) {
	l := a.Lease.DeepCopy()
	if err := r.Leases.Update(ctx, l); err != nil {
		r.tellRefusedUpdate(o.Lease, err)
		return outcome(err, "update lease")
	}
	r.observeLease(l, r.Tracker.Now())
	r.tell(o.Lease, a.Event)
	return result{}, nil
}

// outcome sorts a lost race from an error.
func outcome(err error, what string) (result, error) {
	switch {
	case err == nil:
		return result{}, nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err), refusal.LostTest(err):
		return result{lost: true}, nil
	}
	return result{}, fmt.Errorf("%s: %w", what, err)
}

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

func (r *Reconciler) patch(ctx context.Context, o *observation, pod *corev1.Pod, what string, ops []operation) (result, error) {
	body, err := json.Marshal(ops)
	if err != nil {
		return result{}, err
	}
	return r.writePod(o, pod, false, what, func() error {
		return r.Client.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.JSONPatchType, body))
	})
}

func (r *Reconciler) mark(ctx context.Context, o *observation, a plan.MarkEnded) (result, error) {
	body, err := json.Marshal(markPatch(a))
	if err != nil {
		return result{}, err
	}
	return r.writePod(o, a.Pod, false, "mark", func() error {
		// No pod, nothing to stamp.
		return client.IgnoreNotFound(r.Client.Patch(ctx, a.Pod.DeepCopy(), client.RawPatch(types.JSONPatchType, body)))
	})
}

// noteReady needs no version: once true, it stays so. Nothing else in the plan
// rests on it.
func (r *Reconciler) noteReady(ctx context.Context, o *observation, a plan.NoteReady) (result, error) {
	did, err := r.patch(ctx, o, a.Pod, "annotate", []operation{
		{"test", "/metadata/uid", a.Pod.UID},
		{"add", "/metadata/annotations/" + strings.ReplaceAll(v1alpha1.AnnotationWasReady, "/", "~1"), a.Token},
	})
	did.lost = false
	return did, err
}

func (r *Reconciler) revoke(ctx context.Context, o *observation, a plan.RevokePod) (result, error) {
	did, err := r.writePod(o, a.Pod, true, "delete", func() error {
		return client.IgnoreNotFound(r.Client.Delete(ctx, a.Pod.DeepCopy(),
			client.Preconditions{UID: &a.Pod.UID, ResourceVersion: &a.Pod.ResourceVersion}))
	})
	if err == nil && !did.lost && !did.refused {
		r.tell(o.Lease, a.Event)
	}
	return did, err
}

// identity tests that the pod is the one that was read, unchanged since.
func identity(pod *corev1.Pod) []operation {
	return []operation{
		{"test", "/metadata/uid", pod.UID},
		{"test", "/metadata/resourceVersion", pod.ResourceVersion},
	}
}

func annotate(pod *corev1.Pod, values map[string]string) operation {
	merged := map[string]string{}
	for k, v := range pod.Annotations {
		merged[k] = v
	}
	for k, v := range values {
		merged[k] = v
	}
	return operation{"add", "/metadata/annotations", merged}
}

// stampPatch writes the token and removes our gate, if it is the one that was
// seen at its place.
func stampPatch(a plan.StampPod) []operation {
	ops := append(identity(a.Pod), annotate(a.Pod, map[string]string{v1alpha1.AnnotationToken: a.Token}))
	if a.Gate < 0 {
		return ops
	}
	path := fmt.Sprintf("/spec/schedulingGates/%d", a.Gate)
	return append(ops,
		operation{"test", path + "/name", v1alpha1.SchedulingGate},
		operation{"remove", path, nil})
}

// markPatch writes the ended token, and the version that it was written on, so
// that it changes the pod every time.
func markPatch(a plan.MarkEnded) []operation {
	return append(identity(a.Pod), annotate(a.Pod, map[string]string{
		v1alpha1.AnnotationEndedToken:   a.Token,
		v1alpha1.AnnotationEndedVersion: a.Pod.ResourceVersion,
	}))
}

// guardPatch adds our finalizer, freePatch takes it off.
func guardPatch(pod *corev1.Pod) []operation {
	return append(identity(pod), operation{"add", "/metadata/finalizers", append(slices.Clone(pod.Finalizers), v1alpha1.FinalizerLease)})
}

func freePatch(pod *corev1.Pod) []operation {
	rest := slices.DeleteFunc(slices.Clone(pod.Finalizers), func(f string) bool { return f == v1alpha1.FinalizerLease })
	return append(identity(pod), operation{"add", "/metadata/finalizers", rest})
}

// remove deletes our own pod, and evicts any other, so that a
// PodDisruptionBudget is heeded. A refusal by one is told and remembered.
func (r *Reconciler) remove(ctx context.Context, o *observation, a plan.RemovePod) (result, error) {
	what := "evict"
	if plan.Ours(a.Pod) {
		what = "delete"
	}
	did, err := r.writePod(o, a.Pod, true, what, func() error { return r.removePod(ctx, a.Pod) })
	switch {
	case did.lost:
		return result{}, nil // It is gone, or another pod has its name.
	case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		r.Tracker.Observe(podSubject(a.Pod.UID, podRefused), "yes", "1", r.Tracker.Now())
		e := a.Event
		e.Warning, e.Reason, e.Note = true, plan.ReasonEvictionRefused, fmt.Sprintf("%s, but it may not be evicted: %v", e.Note, err)
		r.tell(o.Lease, e)
		return result{again: retryEviction}, nil
	case err == nil && !did.refused:
		r.tell(o.Lease, a.Event)
	}
	return did, err
}

func (r *Reconciler) removePod(ctx context.Context, pod *corev1.Pod) error {
	conditions := metav1.Preconditions{UID: &pod.UID}
	if plan.Ours(pod) {
		return r.Client.Delete(ctx, pod.DeepCopy(), client.Preconditions(conditions))
	}
	return r.Client.SubResource("eviction").Create(ctx, pod.DeepCopy(), &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &conditions},
	})
}

// await asks the tracker to wake the key when what the plan waits for is due. A
// subject whose age is past already is not awaited: it would wake at once.
func (r *Reconciler) await(key types.NamespacedName, o *observation, p plan.Plan) {
	own := leaseSubject(key)
	for _, due := range []time.Duration{min(p.TakeUp, p.Lapse), max(p.TakeUp, p.Lapse)} {
		if due > o.Age {
			r.Tracker.Await(key, own, due)
			break
		}
	}
	if p.Lapse <= o.Silence {
		return
	}
	for _, subject := range o.speakers {
		r.Tracker.Await(key, subject, p.Lapse)
	}
}
