// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package singletonjob

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// releaseOrphans lets go of what is left of earlier jobs of this name. There is
// something only if somebody took the job's finalizer away by force; the
// garbage collector then deletes pods and Lease, and nobody else would remove
// our finalizers. An open term is still waited for.
func (r *Reconciler) releaseOrphans(ctx context.Context, key types.NamespacedName) error {
	var pods corev1.PodList
	var leases coordinationv1.LeaseList
	for _, list := range []client.ObjectList{&pods, &leases} {
		if err := r.Client.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingLabels{v1alpha1.LabelJob: key.Name}); err != nil {
			return fmt.Errorf("list orphans: %w", err)
		}
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if err := r.releaseOrphan(ctx, key, pod, pod.Labels[v1alpha1.LabelLease], v1alpha1.FinalizerOutcome); err != nil {
			return err
		}
	}
	for i := range leases.Items {
		if err := r.releaseOrphan(ctx, key, &leases.Items[i], leases.Items[i].Name, v1alpha1.FinalizerLease); err != nil {
			return err
		}
	}
	return nil
}

// releaseOrphan removes a finalizer of ours from an object that is being
// deleted, whose job is gone by a live read, and whose term is over.
func (r *Reconciler) releaseOrphan(ctx context.Context, key types.NamespacedName, object client.Object, leaseName, finalizer string) error {
	owner := metav1.GetControllerOf(object)
	if object.GetDeletionTimestamp() == nil || !controllerutil.ContainsFinalizer(object, finalizer) ||
		owner == nil || owner.Kind != kind || owner.APIVersion != v1alpha1.GroupVersion.String() || owner.Name != key.Name {
		return nil
	}
	job := &v1alpha1.SingletonJob{}
	if err := r.APIReader.Get(ctx, key, job); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read job: %w", err)
	}
	if job.UID == owner.UID {
		return nil
	}
	l := &coordinationv1.Lease{}
	if err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: leaseName}, l); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read lease: %w", err)
	}
	if concerns(l, object) {
		return nil
	}
	return gone(r.dropFinalizer(ctx, object, l, finalizer), "release orphan "+object.GetName())
}

// concerns reports whether an open term on the Lease is the object's.
func concerns(l *coordinationv1.Lease, object client.Object) bool {
	record, err := lease.Parse(l)
	if err != nil {
		return true // Nothing may be decided from it.
	}
	return record.Open() && (object.GetUID() == l.UID || record.GrantHolder == lease.Holder(object.GetName(), string(object.GetUID())))
}

// dropFinalizer writes a pod, or the Lease just read, at the version seen.
func (r *Reconciler) dropFinalizer(ctx context.Context, object client.Object, l *coordinationv1.Lease, finalizer string) error {
	if object.GetUID() == l.UID {
		controllerutil.RemoveFinalizer(l, finalizer)
		return r.Client.Update(ctx, l)
	}
	if _, ok := object.(*corev1.Pod); !ok {
		return apierrors.NewConflict(coordinationv1.Resource("leases"), object.GetName(), errLost)
	}
	before := object.DeepCopyObject().(client.Object)
	controllerutil.RemoveFinalizer(object, finalizer)
	return r.Client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
