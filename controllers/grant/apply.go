// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"encoding/json"
	"fmt"
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
	"leasehold.dev/leaderelect/lease"
)

// apply does the actions in order and stops at the first that fails. lost says
// that another writer was faster: nothing is wrong, look again.
func (r *Reconciler) apply(ctx context.Context, o plan.Observed, p plan.Plan) (lost bool, err error) {
	for _, a := range p.Actions {
		lost, err := r.applyOne(ctx, o, a)
		if lost || err != nil {
			return lost, err
		}
	}
	return false, nil
}

func (r *Reconciler) applyOne(ctx context.Context, o plan.Observed, a plan.Action) (lost bool, err error) {
	switch a := a.(type) {
	case plan.UpdateLease:
		l := a.Lease.DeepCopy()
		if err := r.Leases.Update(ctx, l); err != nil {
			return outcome(err, "update lease")
		}
		r.observeLease(l)
		r.tell(o.Lease, a.Event)
		return false, nil
	case plan.StampPod:
		return patched(ctx, r.patch(ctx, a.Pod, stampPatch(a)), "stamp pod "+a.Pod.Name)
	case plan.MarkEnded:
		err := r.patch(ctx, a.Pod, markPatch(a))
		if apierrors.IsNotFound(err) {
			return false, nil // No pod, nothing to stamp.
		}
		return patched(ctx, err, "mark pod "+a.Pod.Name)
	case plan.RemovePod:
		lost, err := r.remove(ctx, a)
		if !lost && err == nil {
			r.tell(o.Lease, a.Event)
		}
		return lost, err
	}
	return false, fmt.Errorf("unknown action %T", a)
}

// outcome sorts a lost race from an error.
func outcome(err error, what string) (lost bool, _ error) {
	switch {
	case err == nil:
		return false, nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return true, nil
	}
	return false, fmt.Errorf("%s: %w", what, err)
}

// patched is outcome for a JSON patch: the API answers a failed test with
// Invalid, as it may answer a policy's denial, so it is not passed over in
// silence.
func patched(ctx context.Context, err error, what string) (lost bool, _ error) {
	if apierrors.IsInvalid(err) {
		log.FromContext(ctx).V(2).Info("Patch refused", "what", what, "why", err.Error())
		return true, nil
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

// remove deletes our own pod, and evicts any other, so that a
// PodDisruptionBudget is heeded.
func (r *Reconciler) remove(ctx context.Context, a plan.RemovePod) (lost bool, _ error) {
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
	return outcome(err, "remove pod "+a.Pod.Name)
}

// await asks the tracker to wake the key when what the plan waits for is due. A
// subject whose age is past already is not awaited: it would wake at once.
func (r *Reconciler) await(key types.NamespacedName, o plan.Observed, p plan.Plan) {
	record, err := lease.Parse(o.Lease)
	if err != nil {
		return
	}
	own := leaseSubject(key)
	for _, due := range []time.Duration{min(p.TakeUp, p.Lapse), max(p.TakeUp, p.Lapse)} {
		if due > o.Age {
			r.Tracker.Await(key, own, due)
			break
		}
	}
	if record.Config.RenewedBy != v1alpha1.RenewedByKubelet || p.Lapse == 0 || o.Holder == nil {
		return
	}
	if o.Silence < p.Lapse {
		r.Tracker.Await(key, nodeSubject(o.Holder.Spec.NodeName), p.Lapse)
	}
	if o.HolderNotReady && o.HolderWasReady && o.Silence < p.Lapse {
		r.Tracker.Await(key, podSubject(o.Holder.UID, "ready"), p.Lapse)
	}
}
