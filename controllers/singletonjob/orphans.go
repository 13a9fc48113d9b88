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
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// releaseOrphans lets go of what is left of earlier jobs of this name. There is
// something only if somebody took the job's finalizer away by force, after which
// the garbage collector deletes pods and Lease; or took an object away from its
// job, as --cascade=orphan does. Nobody else would remove our finalizers. An
// open term is still waited for.
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
	owner, ours := orphanOf(object)
	if object.GetDeletionTimestamp() == nil || !controllerutil.ContainsFinalizer(object, finalizer) || !ours || owner.Name != key.Name {
		return nil
	}
	job := &v1alpha1.SingletonJob{}
	if err := r.APIReader.Get(ctx, key, job); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read job: %w", err)
	}
	if owner.UID != "" && job.UID == owner.UID {
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

// orphanOf returns the job, perhaps of the past, to which an object of ours
// belongs. One that was taken away from its job has its label still, and no UID.
func orphanOf(object client.Object) (metav1.OwnerReference, bool) {
	owner := metav1.GetControllerOf(object)
	if owner == nil {
		name := object.GetLabels()[v1alpha1.LabelJob]
		return metav1.OwnerReference{Name: name}, name != ""
	}
	return *owner, owner.Kind == kind && owner.APIVersion == v1alpha1.GroupVersion.String()
}

// wakeTaken is for objects that were taken away from their job: no owner is woken
// by them.
func wakeTaken(_ context.Context, object client.Object) []reconcile.Request {
	job := object.GetLabels()[v1alpha1.LabelJob]
	if job == "" || metav1.GetControllerOf(object) != nil || object.GetDeletionTimestamp() == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: job}}}
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
