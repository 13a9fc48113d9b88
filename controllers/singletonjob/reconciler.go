// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package singletonjob

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"leasehold.dev/controllers/singletonjob/plan"
	"leasehold.dev/internal/refusal"
)

const (
	// kind is the kind that this package is about.
	kind = "SingletonJob"
	// fieldOwner owns what server-side apply writes.
	fieldOwner = client.FieldOwner("leasehold-singletonjob")
	// retryLost is when to look again after a lost race. A renewal of the Lease
	// wins races and wakes nobody.
	retryLost = 100 * time.Millisecond
)

// +kubebuilder:rbac:groups=leasehold.dev,resources=singletonjobs,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=leasehold.dev,resources=singletonjobs/status,verbs=update
// +kubebuilder:rbac:groups=leasehold.dev,resources=singletonjobs/finalizers,verbs=update
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;update;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler makes what SingletonJobs need.
type Reconciler struct {
	// Client reads jobs, pods, Roles and RoleBindings from the cache, and
	// writes.
	Client client.Client
	// APIReader reads live.
	APIReader client.Reader
	// Clock is the wall clock: for people, and for the pause after a failed
	// run. No term is judged by it.
	Clock clock.PassiveClock
	// Recorder tells people.
	Recorder events.EventRecorder
	// AgentImage is the image that pods mount the agent from.
	AgentImage string
	// ClusterUID is the UID of the kube-system namespace: who issues tokens.
	ClusterUID string
	// LeaseRefusals tells which grants the API server refuses. May be nil.
	LeaseRefusals *refusal.Board

	refusals refusal.Board
	held     held
}

// errLost says that another writer was faster, or that the view was stale.
// Nothing is wrong; look again.
var errLost = errors.New("lost a race")

// Reconcile looks at one job and does what the plan says.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	observed, err := r.observe(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	if observed == nil {
		r.refusals.Forget(req.NamespacedName)
		r.held.forget(req.NamespacedName)
	}
	var orphans error
	if observed == nil || plan.Obstructed(*observed) {
		orphans = r.releaseOrphans(ctx, req.NamespacedName)
		if observed == nil || (orphans != nil && !refusal.Is(orphans)) {
			return again(ctrl.Result{}, orphans)
		}
	}
	p := plan.Decide(*observed)
	for _, note := range p.Notes {
		log.FromContext(ctx).V(4).Info("Planned", "why", note)
	}
	if err = r.apply(ctx, observed, p); err == nil {
		err = orphans
	}
	if r.refusals.Note(observed.Job, err) && err == nil {
		return ctrl.Result{RequeueAfter: retryLost}, nil // The condition still says it.
	}
	return again(ctrl.Result{RequeueAfter: p.RequeueAfter}, err)
}

// again turns a lost race into another look.
func again(result ctrl.Result, err error) (ctrl.Result, error) {
	var left heldError
	switch {
	case errors.As(err, &left):
		return ctrl.Result{RequeueAfter: time.Duration(left)}, nil
	case errors.Is(err, errLost), apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: retryLost}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	return result, nil
}
