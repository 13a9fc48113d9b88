// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/controllers/grant/plan"
	"leasehold.dev/leaderelect/lease"
)

// nodeLeaseNamespace is where kubelets renew their nodes' leases.
const nodeLeaseNamespace = "kube-node-lease"

// observe reads pods, then the Lease, then what the Lease's holder needs. nil:
// there is no managed Lease.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (*plan.Observed, error) {
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(key.Namespace), client.MatchingLabels{v1alpha1.LabelLease: key.Name}); err != nil {
		return nil, fmt.Errorf("list candidates: %w", err)
	}
	var l coordinationv1.Lease
	if err := r.Leases.Get(ctx, key, &l); err != nil {
		if apierrors.IsNotFound(err) {
			r.Tracker.Forget(leaseSubject(key))
			return nil, nil
		}
		return nil, fmt.Errorf("read lease: %w", err)
	}
	if l.Labels[v1alpha1.LabelManaged] != "true" {
		return nil, nil
	}
	o := &plan.Observed{
		Observation: lease.Observation{Lease: &l, Age: r.observeLease(&l)},
		Issuer:      strings.Join([]string{r.ClusterUID, key.Namespace, key.Name}, "/"),
		Now:         r.Clock.Now(),
	}
	for i := range pods.Items {
		o.Pods = append(o.Pods, &pods.Items[i])
	}
	return o, r.observeHolder(ctx, o)
}

func (r *Reconciler) observeLease(l *coordinationv1.Lease) time.Duration {
	return r.Tracker.Observe(leaseSubject(client.ObjectKeyFromObject(l)), lease.Fingerprint(l), l.ResourceVersion)
}

// observeHolder finds the pod that the grant names, and what else its term
// depends on.
func (r *Reconciler) observeHolder(ctx context.Context, o *plan.Observed) error {
	record, err := lease.Parse(o.Lease)
	if err != nil || record.GrantHolder == "" || !record.Open() {
		return nil // The plan says what is wrong with it.
	}
	name, uid, _ := strings.Cut(record.GrantHolder, "_")
	i := slices.IndexFunc(o.Pods, func(p *corev1.Pod) bool { return p.Name == name && string(p.UID) == uid })
	if i >= 0 {
		o.Holder = o.Pods[i]
	} else if err := r.readHolder(ctx, o, name, uid); err != nil {
		return err
	}
	if o.Holder == nil {
		return nil
	}
	if record.Config.RenewedBy == v1alpha1.RenewedByKubelet {
		if err := r.observeSilence(ctx, o, record); err != nil {
			return err
		}
	}
	return r.observeVouching(ctx, o, record)
}

// readHolder reads a holder that the cache does not have. Its version is newer
// than the Lease's reading, so it may be revoked but not stamped.
func (r *Reconciler) readHolder(ctx context.Context, o *plan.Observed, name, uid string) error {
	var pod corev1.Pod
	err := r.APIReader.Get(ctx, types.NamespacedName{Namespace: o.Lease.Namespace, Name: name}, &pod)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read holder %s: %w", name, err)
	case string(pod.UID) == uid:
		o.Holder, o.HolderReadLate = &pod, true
	}
	return nil
}

// observeVouching looks for what an operator may have said about a holder that
// is being deleted.
func (r *Reconciler) observeVouching(ctx context.Context, o *plan.Observed, record lease.Record) error {
	pod := o.Holder
	if pod.DeletionTimestamp == nil {
		return nil
	}
	if g := pod.DeletionGracePeriodSeconds; g != nil && *g == 0 {
		// The age starts at the first sight; a nanosecond tells that from "not".
		o.ForceDeletedFor = r.Tracker.Observe(podSubject(pod.UID, "forced"), "deleted", "1") + 1
	}
	if record.Config.OverlapPolicy != v1alpha1.OverlapForbid || pod.Spec.NodeName == "" {
		return nil
	}
	var node corev1.Node
	if err := r.APIReader.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, &node); err != nil {
		return client.IgnoreNotFound(err) // A deleted Node proves nothing.
	}
	o.NodeOutOfService = slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeOutOfService
	})
	return nil
}

// observeSilence measures, under renewedBy Kubelet, how long the pod was not
// ready, or its node's lease unchanged: live reads of both, judged at the very
// versions whose age is known.
func (r *Reconciler) observeSilence(ctx context.Context, o *plan.Observed, record lease.Record) error {
	var pod corev1.Pod
	err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(o.Holder), &pod)
	if apierrors.IsNotFound(err) || (err == nil && pod.UID != o.Holder.UID) {
		o.Silence = o.Age // No pod: nothing but the Lease itself can be waited for.
		return nil
	}
	if err != nil {
		return fmt.Errorf("read pod: %w", err)
	}
	p := r.observePod(&pod)
	o.HolderWasReady, o.HolderNotReady = p.wasReady, !p.ready
	if p.wasReady && !p.ready {
		o.Silence = p.age
	}
	if pod.Spec.NodeName == "" {
		return nil
	}
	var node coordinationv1.Lease
	err = r.Leases.Get(ctx, types.NamespacedName{Namespace: nodeLeaseNamespace, Name: pod.Spec.NodeName}, &node)
	if apierrors.IsNotFound(err) {
		o.Silence = max(o.Silence, r.Tracker.Observe(nodeSubject(pod.Spec.NodeName), "missing", "1"))
		return nil
	}
	if err != nil {
		return fmt.Errorf("read node lease: %w", err)
	}
	o.Silence = max(o.Silence, r.observeNode(&node))
	return nil
}

func (r *Reconciler) observeNode(l *coordinationv1.Lease) time.Duration {
	return r.Tracker.Observe(nodeSubject(l.Name), lease.Fingerprint(l), l.ResourceVersion)
}

// readiness is what this process has seen of a pod's Ready condition.
type readiness struct {
	ready    bool
	wasReady bool          // At some time, now included.
	age      time.Duration // Of the present value.
}

func (r *Reconciler) observePod(pod *corev1.Pod) readiness {
	value := "absent"
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			value = string(c.Status)
		}
	}
	seen := podSubject(pod.UID, "was-ready")
	p := readiness{
		ready: value == string(corev1.ConditionTrue),
		age:   r.Tracker.Observe(podSubject(pod.UID, "ready"), value, pod.ResourceVersion),
	}
	if p.ready {
		r.Tracker.Observe(seen, "yes", "1")
	}
	p.wasReady = r.Tracker.Known(seen)
	return p
}

func leaseSubject(key types.NamespacedName) string { return "lease/" + key.String() }
func nodeSubject(name string) string               { return "node/" + name }
func podSubject(uid types.UID, what string) string { return "pod/" + string(uid) + "/" + what }
