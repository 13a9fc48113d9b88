// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"maps"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

const (
	// workers let one hung request hold up no more than its own Lease.
	workers = 4
	// reconcileTimeout bounds all requests of one look at a Lease together.
	reconcileTimeout = 20 * time.Second
	// The back-off after errors. An outage of the API must not outlast itself by
	// more than a fraction of a lease.
	leastBackoff = 50 * time.Millisecond
	mostBackoff  = 5 * time.Second
)

// SetupWithManager registers the controller, and the tracker's feed, which runs
// on every replica: a replica that comes to lead has known all ages for long.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	due := make(chan event.TypedGenericEvent[*coordinationv1.Lease], 1024)
	if err := mgr.Add(&feed{r: r, cache: mgr.GetCache(), due: due}); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("grant").
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			ReconciliationTimeout:   reconcileTimeout,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](leastBackoff, mostBackoff),
		}).
		For(&coordinationv1.Lease{}, builder.WithPredicates(managed, actedOn)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(leaseOf)).
		WatchesRawSource(source.Channel(due, &handler.TypedEnqueueRequestForObject[*coordinationv1.Lease]{})).
		Complete(r)
}

func leaseOf(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[v1alpha1.LabelLease]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
}

var managed = predicate.NewPredicateFuncs(isManaged)

// actedOn drops mere renewals, which only the tracker needs; while the Lease
// says that it is blocked, a renewal is news.
var actedOn = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*coordinationv1.Lease)
	after, ok2 := e.ObjectNew.(*coordinationv1.Lease)
	if !ok || !ok2 || after.Annotations[v1alpha1.AnnotationBlocked] != "" {
		return true
	}
	spec := before.Spec
	spec.RenewTime = after.Spec.RenewTime
	return before.UID != after.UID ||
		!before.DeletionTimestamp.Equal(after.DeletionTimestamp) ||
		!equality.Semantic.DeepEqual(spec, after.Spec) ||
		!maps.Equal(before.Annotations, after.Annotations) ||
		!maps.Equal(before.Labels, after.Labels)
}}

// feed tells the tracker of every Lease, node lease and pod that the watches
// deliver, without a reconcile.
type feed struct {
	r     *Reconciler
	cache cache.Cache
	due   chan<- event.TypedGenericEvent[*coordinationv1.Lease]
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (f *feed) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (f *feed) Start(ctx context.Context) error {
	leases, err := f.cache.GetInformer(ctx, &coordinationv1.Lease{})
	if err != nil {
		return err
	}
	if _, err := leases.AddEventHandler(f.onLease()); err != nil {
		return err
	}
	pods, err := f.cache.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return err
	}
	if _, err := pods.AddEventHandler(f.onPod()); err != nil {
		return err
	}
	f.r.Tracker.Run(ctx, func(key types.NamespacedName) {
		l := &coordinationv1.Lease{}
		l.Namespace, l.Name = key.Namespace, key.Name
		select {
		case f.due <- event.TypedGenericEvent[*coordinationv1.Lease]{Object: l}:
		case <-ctx.Done():
		}
	})
	return nil
}

func (f *feed) onLease() toolscache.ResourceEventHandler {
	return handlers(
		func(l *coordinationv1.Lease) { f.r.Tracker.See(subjectOf(l), lease.Fingerprint(l), l.ResourceVersion) },
		func(l *coordinationv1.Lease) {
			if l.Namespace == corev1.NamespaceNodeLease {
				f.r.Tracker.Forget(nodeSubject(l.Name))
				return
			}
			f.r.forgetLease(client.ObjectKeyFromObject(l))
		})
}

func (f *feed) onPod() toolscache.ResourceEventHandler {
	return handlers(
		func(pod *corev1.Pod) {
			f.r.Tracker.See(podSubject(pod.UID, podReady), readiness(pod), pod.ResourceVersion)
			if readiness(pod) == string(corev1.ConditionTrue) {
				f.r.Tracker.See(podSubject(pod.UID, podWasReady), "yes", "1")
			}
		},
		func(pod *corev1.Pod) {
			for _, what := range []string{podReady, podWasReady, podForced, podRefused, podEnding} {
				f.r.Tracker.Forget(podSubject(pod.UID, what))
			}
			f.r.refusals.forget(pod.UID)
		})
}

// handlers returns a handler that sees added and updated objects, and forgets
// deleted ones, also those whose deletion the watch missed.
func handlers[T client.Object](see, forget func(T)) toolscache.ResourceEventHandler {
	each := func(do func(T)) func(any) {
		return func(o any) {
			if missed, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = missed.Obj
			}
			if object, ok := o.(T); ok {
				do(object)
			}
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: each(see), UpdateFunc: func(_, o any) { each(see)(o) }, DeleteFunc: each(forget),
	}
}
