// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package singletonjob

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"leasehold.dev/api/v1alpha1"
)

const (
	workers = 4
	// reconcileTimeout ends a look whose request hangs.
	reconcileTimeout = 20 * time.Second
	// A refused write may be retried by nothing but the back-off: a quota that
	// was raised, an API server that is back.
	leastBackoff = 5 * time.Millisecond
	mostBackoff  = 15 * time.Second
)

// SetupWithManager registers the controller. Renewals wake nobody. What is not
// the job's and stands in its way is looked at again after a while: the cache
// need not have it.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).
		Named("singletonjob").
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			ReconciliationTimeout:   reconcileTimeout,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](leastBackoff, mostBackoff),
		}).
		For(&v1alpha1.SingletonJob{}).
		Owns(&coordinationv1.Lease{}, builder.WithPredicates(actedOn)).
		Owns(&corev1.Pod{}).
		Owns(&rbacv1.Role{}).
		Owns(&rbacv1.RoleBinding{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(wakeTaken)).
		Watches(&coordinationv1.Lease{}, handler.EnqueueRequestsFromMapFunc(wakeTaken))
	if r.LeaseRefusals != nil { // Nothing that a watch could show has changed.
		owner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &v1alpha1.SingletonJob{}, handler.OnlyControllerOwner())
		b = b.WatchesRawSource(source.Channel(r.LeaseRefusals.Changes(), owner))
	}
	return b.Complete(r)
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
