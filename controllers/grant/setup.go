// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
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

var managed = predicate.NewPredicateFuncs(func(o client.Object) bool {
	return o.GetLabels()[v1alpha1.LabelManaged] == "true"
})

// actedOn drops mere renewals, which only the tracker needs; while the Lease
// says that it is blocked, a renewal is news.
var actedOn = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*coordinationv1.Lease)
	after, ok2 := e.ObjectNew.(*coordinationv1.Lease)
	if !ok || !ok2 || after.Annotations[v1alpha1.AnnotationBlocked] != "" {
		return true
	}
	renewed := before.DeepCopy()
	renewed.Spec.RenewTime = after.Spec.RenewTime
	renewed.ResourceVersion, renewed.ManagedFields = after.ResourceVersion, after.ManagedFields
	return !equalLeases(renewed, after)
}}

func equalLeases(a, b *coordinationv1.Lease) bool {
	return lease.Fingerprint(a) == lease.Fingerprint(b) &&
		a.DeletionTimestamp.Equal(b.DeletionTimestamp) &&
		fmt.Sprint(a.Annotations, a.Labels) == fmt.Sprint(b.Annotations, b.Labels)
}

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
	see := func(o any) {
		l, ok := o.(*coordinationv1.Lease)
		switch {
		case !ok:
		case l.Namespace == nodeLeaseNamespace:
			f.r.observeNode(l)
		case l.Labels[v1alpha1.LabelManaged] == "true":
			f.r.observeLease(l)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, o any) { see(o) },
		DeleteFunc: func(o any) {
			if l, ok := o.(*coordinationv1.Lease); ok && l.Namespace == nodeLeaseNamespace {
				f.r.Tracker.Forget(nodeSubject(l.Name))
			}
		},
	}
}

func (f *feed) onPod() toolscache.ResourceEventHandler {
	see := func(o any) {
		if pod, ok := o.(*corev1.Pod); ok {
			f.r.observePod(pod)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, o any) { see(o) },
		DeleteFunc: func(o any) {
			if pod, ok := o.(*corev1.Pod); ok {
				for _, what := range []string{"ready", "was-ready", "forced"} {
					f.r.Tracker.Forget(podSubject(pod.UID, what))
				}
			}
		},
	}
}
