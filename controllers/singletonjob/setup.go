// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package singletonjob

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/controllers/singletonjob/plan"
)

// leaseNameIndex finds jobs by the name of their Lease, whoever owns it.
const leaseNameIndex = "leasehold.dev/lease-name"

// SetupWithManager registers the controller. Renewals wake nobody.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	index := func(o client.Object) []string { return []string{plan.LeaseName(o.(*v1alpha1.SingletonJob))} }
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.SingletonJob{}, leaseNameIndex, index); err != nil {
		return fmt.Errorf("index jobs by lease: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("singletonjob").
		For(&v1alpha1.SingletonJob{}).
		Owns(&corev1.Pod{}).
		Owns(&rbacv1.Role{}).
		Owns(&rbacv1.RoleBinding{}).
		Watches(&coordinationv1.Lease{}, handler.EnqueueRequestsFromMapFunc(r.jobsOfLease), builder.WithPredicates(actedOn)).
		Complete(r)
}

// jobsOfLease finds the jobs that this Lease concerns: its owner, even if that
// is gone, and those in whose way it stands.
func (r *Reconciler) jobsOfLease(ctx context.Context, l client.Object) []reconcile.Request {
	var jobs v1alpha1.SingletonJobList
	if err := r.Client.List(ctx, &jobs, client.InNamespace(l.GetNamespace()), client.MatchingFields{leaseNameIndex: l.GetName()}); err != nil {
		log.FromContext(ctx).Error(err, "Cannot list the jobs of a lease", "lease", client.ObjectKeyFromObject(l))
		return nil
	}
	var requests []reconcile.Request
	if owner := metav1.GetControllerOf(l); owner != nil && owner.Kind == kind {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: l.GetNamespace(), Name: owner.Name}})
	}
	for i := range jobs.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&jobs.Items[i])})
	}
	return requests
}

// actedOn drops updates of Leases that only renew, or only measure.
var actedOn = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*coordinationv1.Lease)
	after, ok2 := e.ObjectNew.(*coordinationv1.Lease)
	return !ok || !ok2 || !equality.Semantic.DeepEqual(essence(before), essence(after))
}}

// essence is a Lease without what changes while nothing happens.
func essence(l *coordinationv1.Lease) *coordinationv1.Lease {
	l = l.DeepCopy()
	l.ResourceVersion, l.ManagedFields = "", nil
	l.Spec.RenewTime = nil
	delete(l.Annotations, v1alpha1.AnnotationSectionP99)
	return l
}
