// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"fmt"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/controllers/grant/plan"
	"leasehold.dev/leaderelect/lease"
)

// observation is what was seen, and what speaks for the holder.
type observation struct {
	plan.Observed
	// speakers are the subjects whose silence makes Observed.Silence.
	speakers []string
}

// observe reads pods, then the Lease, then what the Lease's holder needs. It
// has no Lease where there is none that Leasehold manages.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (*observation, error) {
	o := &observation{}
	var pods corev1.PodList
	if err := r.Client.List(ctx, &pods, client.InNamespace(key.Namespace), client.MatchingLabels{v1alpha1.LabelLease: key.Name}); err != nil {
		return nil, fmt.Errorf("list candidates: %w", err)
	}
	for i := range pods.Items {
		o.Pods = append(o.Pods, &pods.Items[i])
	}
	var l coordinationv1.Lease
	begun := r.Tracker.Now()
	if err := client.IgnoreNotFound(r.Leases.Get(ctx, key, &l)); err != nil {
		return nil, fmt.Errorf("read lease: %w", err)
	}
	if !isManaged(&l) { // Nor is one that was not found.
		r.forgetLease(key)
		r.versions.forget(key)
		return o, nil
	}
	r.noteVersion(key, l.ResourceVersion)
	o.Lease, o.Age = &l, r.observeLease(&l, begun)
	o.Issuer = strings.Join([]string{r.ClusterUID, key.Namespace, key.Name}, "/")
	o.Now = r.Clock.Now()
	for _, pod := range o.Pods {
		if r.Tracker.Known(podSubject(pod.UID, podRefused)) {
			o.EvictionRefused = with(o.EvictionRefused, pod.UID)
		}
	}
	err := r.observeHolder(ctx, o)
	o.Refused = r.refusals.of(append(slices.Clone(o.Pods), holders(o)...))
	return o, err
}

func holders(o *observation) []*corev1.Pod {
	if o.Holder == nil {
		return nil
	}
	return []*corev1.Pod{o.Holder}
}

// isManaged reports whether the Lease is ours to write. Nodes' own leases never
// are, whatever their labels.
func isManaged(l client.Object) bool {
	return l.GetLabels()[v1alpha1.LabelManaged] == "true" && l.GetNamespace() != corev1.NamespaceNodeLease
}

func with(set map[types.UID]bool, uid types.UID) map[types.UID]bool {
	if set == nil {
		set = map[types.UID]bool{}
	}
	set[uid] = true
	return set
}

// observeHolder finds the pod that the grant names, and what else its term
// depends on.
func (r *Reconciler) observeHolder(ctx context.Context, o *observation) error {
	// The plan says what is wrong with a Lease that cannot be parsed; its record
	// is empty.
	record, _ := lease.Parse(o.Lease)
	if record.GrantHolder == "" || !record.Open() {
		return nil
	}
	name, uid, _ := strings.Cut(record.GrantHolder, "_")
	i := slices.IndexFunc(o.Pods, func(p *corev1.Pod) bool { return p.Name == name && string(p.UID) == uid })
	if i >= 0 {
		o.Holder = o.Pods[i]
	} else if err := r.readHolder(ctx, o, name, uid); err != nil {
		return err
	}
	if plan.ByKubelet(record) {
		if err := r.observeSilence(ctx, o, record); err != nil {
			return err
		}
	}
	if o.Holder == nil {
		return nil
	}
	return r.observeVouching(ctx, o, record)
}

// readHolder reads a holder that the cache does not have. Its version is newer
// than the Lease's reading, so it may be revoked but not stamped.
func (r *Reconciler) readHolder(ctx context.Context, o *observation, name, uid string) error {
	if len(validation.NameIsDNSSubdomain(name, false)) > 0 {
		return nil // Written by hand; no pod has such a name.
	}
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
func (r *Reconciler) observeVouching(ctx context.Context, o *observation, record lease.Record) error {
	pod := o.Holder
	if record.Config.OverlapPolicy != v1alpha1.OverlapForbid || pod.DeletionTimestamp == nil || pod.Spec.NodeName == "" {
		return nil
	}
	var node corev1.Node
	if err := r.APIReader.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, &node); err != nil {
		return client.IgnoreNotFound(err) // A deleted Node proves nothing.
	}
	o.NodeOutOfService = slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeOutOfService
	})
	if plan.ForceDeleted(pod) {
		// The age starts at the first sight; a nanosecond tells that from "not".
		o.ForceDeletedFor = r.Tracker.Observe(podSubject(pod.UID, podForced), "deleted", "1", r.Tracker.Now()) + 1
	}
	return nil
}
