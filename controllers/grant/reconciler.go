// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"leasehold.dev/controllers/grant/plan"
	"leasehold.dev/internal/lapse"
	"leasehold.dev/internal/refusal"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get
// +kubebuilder:rbac:groups="",resources=namespaces,resourceNames=kube-system,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler grants one Lease at a time.
type Reconciler struct {
	// Client reads pods from the cache, and writes pods.
	Client client.Client
	// Leases reads and writes Leases, live, with a rate limiter and timeouts of
	// its own.
	Leases client.Client
	// APIReader reads pods and nodes live.
	APIReader client.Reader
	// Tracker knows the ages of Leases, nodes and pods.
	Tracker *lapse.Tracker
	// Clock is the wall clock.
	Clock clock.PassiveClock
	// Recorder tells people.
	Recorder events.EventRecorder
	// ClusterUID is the UID of the kube-system namespace: who issues tokens.
	ClusterUID string
	// Restored is told when the store was put back to an older copy: what this
	// process has cached may be of a future that never was. May be nil.
	Restored func(error)
	// LeaseRefusals learns which writes of Leases the API server refuses: they
	// cannot be told on the Lease. May be nil.
	LeaseRefusals *refusal.Board

	versions liveVersions
	refusals refusals
}

// retryConflict is when to look again after a lost race. The winner's write
// wakes the key by the watch; this is for a watch that is stuck.
const retryConflict = time.Second

// Reconcile looks at one Lease and does what the plan says.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	observed, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	p := plan.Abandoned(observed.Pods)
	if observed.Lease != nil {
		if p, err = r.decide(ctx, observed); err != nil {
			return ctrl.Result{}, err
		}
	}
	for _, note := range p.Notes {
		log.FromContext(ctx).V(4).Info("Planned", "note", note)
	}
	did, err := r.apply(ctx, observed, p)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case did.lost:
		return ctrl.Result{RequeueAfter: retryConflict}, nil
	}
	if observed.Lease != nil {
		r.LeaseRefusals.Note(observed.Lease, nil) // Every write that was due was admitted.
	}
	r.await(req.NamespacedName, observed, p)
	return ctrl.Result{RequeueAfter: sooner(p.RequeueAfter, did.again)}, nil
}

// sooner returns the lesser of two waits, where zero is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}
