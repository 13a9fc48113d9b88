// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/controllers/grant/plan"
)

// retryEviction is when to look again after a PodDisruptionBudget refused.
const retryEviction = 30 * time.Second

// result is what came of an action that did not fail. The zero value: done.
type result struct {
	// lost: another writer was faster. Nothing is wrong; the rest of the plan is
	// void; look again.
	lost bool
	// again is when to look again for another reason; zero: no need.
	again time.Duration
}

// apply does the actions in order and stops at the first that fails or is lost.
func (r *Reconciler) apply(ctx context.Context, o *observation, p plan.Plan) (all result, _ error) {
	for _, a := range p.Actions {
		one, err := r.applyOne(ctx, o, a)
		if one.lost || err != nil {
			return one, err
		}
		all.again = max(all.again, one.again)
	}
	return all, nil
}

func (r *Reconciler) applyOne(ctx context.Context, o *observation, a plan.Action) (result, error) {
	switch a := a.(type) {
	case plan.UpdateLease:
		return r.updateLease(ctx, o, a)
	case plan.StampPod:
		return patched(ctx, r.patch(ctx, a.Pod, stampPatch(a)), "stamp pod "+a.Pod.Name)
	case plan.MarkEnded:
		err := r.patch(ctx, a.Pod, markPatch(a))
		if apierrors.IsNotFound(err) {
			return result{}, nil // No pod, nothing to stamp.
		}
		return patched(ctx, err, "mark pod "+a.Pod.Name)
	case plan.RemovePod:
		return r.remove(ctx, o, a)
	case plan.GuardPod:
		return patched(ctx, r.patch(ctx, a.Pod, guardPatch(a.Pod)), "guard pod "+a.Pod.Name)
	case plan.FreePod:
		return patched(ctx, r.patch(ctx, a.Pod, freePatch(a.Pod)), "free pod "+a.Pod.Name)
	}
	return result{}, fmt.Errorf("unknown action %T", a)
}

func (r *Reconciler) updateLease(ctx context.Context, o *observation, a plan.UpdateLease) (result, error) {
	l := a.Lease.DeepCopy()
	if err := r.Leases.Update(ctx, l); err != nil {
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
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return result{lost: true}, nil
	}
	return result{}, fmt.Errorf("%s: %w", what, err)
}

// patched is outcome for a JSON patch: the API answers a failed test with
// Invalid, as it may answer a policy's denial, so it is not passed over in
// silence.
func patched(ctx context.Context, err error, what string) (result, error) {
	if apierrors.IsInvalid(err) {
		log.FromContext(ctx).V(2).Info("Patch refused", "what", what, "why", err.Error())
		return result{lost: true}, nil
	}
	return outcome(err, what)
}

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

func (r *Reconciler) patch(ctx context.Context, pod *corev1.Pod, ops []operation) error {
	body, err := json.Marshal(ops)
	if err != nil {
		return err
	}
	return r.Client.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.JSONPatchType, body))
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
	conditions := &metav1.Preconditions{UID: &a.Pod.UID}
	var err error
	if plan.Ours(a.Pod) {
		err = r.Client.Delete(ctx, a.Pod.DeepCopy(), client.Preconditions(*conditions))
	} else {
		err = r.Client.SubResource("eviction").Create(ctx, a.Pod.DeepCopy(), &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Name: a.Pod.Name, Namespace: a.Pod.Namespace},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: conditions},
		})
	}
	switch {
	case err == nil:
		r.tell(o.Lease, a.Event)
		return result{}, nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return result{}, nil // It is gone, or another pod has its name.
	case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		r.Tracker.Observe(podSubject(a.Pod.UID, podRefused), "yes", "1", r.Tracker.Now())
		e := a.Event
		e.Warning, e.Reason, e.Note = true, plan.ReasonEvictionRefused, fmt.Sprintf("%s, but it may not be evicted: %v", e.Note, err)
		r.tell(o.Lease, e)
		return result{again: retryEviction}, nil
	}
	return result{}, fmt.Errorf("remove pod %s: %w", a.Pod.Name, err)
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
