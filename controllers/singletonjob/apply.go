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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/controllers/singletonjob/plan"
	"leasehold.dev/internal/refusal"
	"leasehold.dev/leaderelect/lease"
)

// applier carries out one plan for one look at a job.
type applier struct {
	*Reconciler
	observed *plan.Observed
	job      *v1alpha1.SingletonJob
	// current: the job was seen live, or written, since it was observed.
	current bool
}

// apply writes the status, tells of it, and then does the actions in order. It
// stops at the first that fails.
func (r *Reconciler) apply(ctx context.Context, o *plan.Observed, p plan.Plan) error {
	a := &applier{Reconciler: r, observed: o, job: o.Job.DeepCopy()}
	if err := a.writeStatus(ctx, p); err != nil {
		return err
	}
	for _, action := range p.Actions {
		if err := a.try(ctx, action); err != nil {
			return err
		}
	}
	return nil
}

// try does an action, unless the API server refused it a moment ago: whatever
// wakes the controller meanwhile, such as the status that tells of it.
func (a *applier) try(ctx context.Context, action plan.Action) error {
	key, what := client.ObjectKeyFromObject(a.job), plan.Describe(a.job, action)
	if left := a.held.left(key, what, a.Clock.Now()); left > 0 {
		return heldError(left)
	}
	err := a.do(ctx, action)
	a.held.note(key, what, refusal.Is(err), a.Clock.Now())
	return err
}

func (a *applier) do(ctx context.Context, action plan.Action) error {
	switch action := action.(type) {
	case plan.AddJobFinalizer:
		return wrap(a.patchFinalizers(ctx, a.job, controllerutil.AddFinalizer, v1alpha1.FinalizerJob), "put a finalizer on the job")
	case plan.RemoveJobFinalizer:
		return a.removeJobFinalizer(ctx)
	case plan.CreateLease:
		return a.createLease(ctx)
	case plan.UpdateLease:
		return a.updateLease(ctx, action)
	case plan.ProveLease:
		return a.proveLease(ctx, action)
	case plan.RemoveLeaseFinalizer:
		return a.removeLeaseFinalizer(ctx, action.Lease)
	case plan.DeleteLease:
		return gone(a.Client.Delete(ctx, action.Lease.DeepCopy(), sameVersion(action.Lease)), "delete lease")
	case plan.ApplyAccess:
		return a.applyAccess(ctx, a.job, a.observed.Pods)
	case plan.CreatePod:
		return a.createPod(ctx, action)
	case plan.DeletePod:
		return a.deletePod(ctx, action)
	case plan.RemovePodFinalizer:
		return gone(a.patchFinalizers(ctx, action.Pod.DeepCopy(), controllerutil.RemoveFinalizer, v1alpha1.FinalizerOutcome), "release pod "+action.Pod.Name)
	}
	return fmt.Errorf("unknown action %T", action)
}

// patchFinalizers changes finalizers at the version seen.
func (a *applier) patchFinalizers(ctx context.Context, object client.Object, change func(client.Object, string) bool, finalizer string) error {
	before := object.DeepCopyObject().(client.Object)
	if !change(object, finalizer) {
		return nil
	}
	return a.Client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// removeJobFinalizer looks live for pods that the cache may not have yet.
func (a *applier) removeJobFinalizer(ctx context.Context) error {
	pods, err := podsOf(ctx, a.APIReader, a.job)
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if controllerutil.ContainsFinalizer(pod, v1alpha1.FinalizerOutcome) {
			return errLost
		}
	}
	return gone(a.patchFinalizers(ctx, a.job, controllerutil.RemoveFinalizer, v1alpha1.FinalizerJob), "release job")
}

// live reads the job live. A job of the same name that was made since is
// another job.
func (a *applier) live(ctx context.Context) (*v1alpha1.SingletonJob, error) {
	job := &v1alpha1.SingletonJob{}
	switch err := a.APIReader.Get(ctx, client.ObjectKeyFromObject(a.job), job); {
	case apierrors.IsNotFound(err):
		return nil, errLost
	case err != nil:
		return nil, fmt.Errorf("read job: %w", err)
	case job.UID != a.job.UID:
		return nil, errLost
	}
	return job, nil
}

// createLease creates the Lease from live reads, and closed: even those may be
// old when the create arrives.
func (a *applier) createLease(ctx context.Context) error {
	job, err := a.live(ctx)
	if err != nil {
		return err
	}
	if job.DeletionTimestamp != nil || plan.Finished(job) {
		return errLost
	}
	pods, err := podsOf(ctx, a.APIReader, job)
	if err != nil {
		return err
	}
	carry, ok := plan.CarryOf(job, pods)
	if !ok {
		return errLost
	}
	meta := metav1.ObjectMeta{
		Namespace: job.Namespace, Name: plan.LeaseName(job),
		Labels:          map[string]string{v1alpha1.LabelJob: job.Name, v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
		OwnerReferences: []metav1.OwnerReference{*ownerReference(job)},
	}
	return made(a.Client.Create(ctx, lease.New(meta, plan.LeaseConfig(job, job.Status.TokenFloor), carry)), "create lease "+meta.Name)
}

// updateLease writes the Lease as seen. Before it is opened, the job is read
// live, after the Lease: whoever completed the job meanwhile is noticed either
// here or by the Lease's version.
func (a *applier) updateLease(ctx context.Context, u plan.UpdateLease) error {
	if u.SameJob {
		if err := a.stillCurrent(ctx); err != nil {
			return err
		}
	}
	if u.Opens {
		switch job, err := a.live(ctx); {
		case err != nil:
			return err
		case !plan.Open(job):
			return errLost
		}
	}
	return changed(a.Client.Update(ctx, u.Lease.DeepCopy()), "update lease "+u.Lease.Name)
}

// proveLease compares a new Lease with live reads made after it, and lets it
// stand only if it knows as much of earlier terms: its create may have been
// judged before terms that another Lease of that name has had since.
func (a *applier) proveLease(ctx context.Context, u plan.ProveLease) error {
	job, err := a.live(ctx)
	if err != nil {
		return err
	}
	pods, err := podsOf(ctx, a.APIReader, job)
	switch {
	case err != nil:
		return err
	case plan.Knows(u.Seen, job, pods):
		return a.updateLease(ctx, plan.UpdateLease{Lease: u.Lease, Opens: u.Opens})
	case u.Seen.DeletionTimestamp == nil:
		return gone(a.Client.Delete(ctx, u.Seen.DeepCopy(), sameVersion(u.Seen)), "delete a new lease that knows too little")
	}
	return a.removeLeaseFinalizer(ctx, u.Seen)
}

func (a *applier) removeLeaseFinalizer(ctx context.Context, l *coordinationv1.Lease) error {
	l = l.DeepCopy()
	controllerutil.RemoveFinalizer(l, v1alpha1.FinalizerLease)
	return gone(a.Client.Update(ctx, l), "release lease")
}

// stillCurrent makes sure, by a live look, that the plan was made from the job
// as it is.
func (a *applier) stillCurrent(ctx context.Context) error {
	if a.current {
		return nil
	}
	job, err := a.live(ctx)
	if err != nil {
		return err
	}
	if job.ResourceVersion != a.job.ResourceVersion {
		return errLost
	}
	a.current = true
	return nil
}

// createPod creates the pod of an ordinal that is still reserved.
func (a *applier) createPod(ctx context.Context, c plan.CreatePod) error {
	if err := a.stillCurrent(ctx); err != nil {
		return err
	}
	pod := podMaker{a.AgentImage, a.ClusterUID}.pod(a.job, c, a.observed.Revision)
	err := a.Client.Create(ctx, pod)
	if err == nil {
		podsCreated.Inc()
		return nil
	}
	return made(err, "create pod "+pod.Name)
}

func (a *applier) deletePod(ctx context.Context, d plan.DeletePod) error {
	conditions := client.Preconditions{UID: &d.Pod.UID}
	if d.SameVersion {
		conditions = sameVersion(d.Pod)
	}
	return gone(a.Client.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: d.Pod.Namespace, Name: d.Pod.Name,
	}}, conditions), "delete pod "+d.Pod.Name)
}

func sameVersion(object client.Object) client.Preconditions {
	uid, version := object.GetUID(), object.GetResourceVersion()
	return client.Preconditions{UID: &uid, ResourceVersion: &version}
}

// changed, gone and made sort what a write answers: an object that is not there
// is a lost race for an update and success for a deletion; one that is there
// already is a lost race for a create, since it may be a stranger's.
func changed(err error, what string) error {
	if apierrors.IsNotFound(err) {
		return errLost
	}
	return wrap(err, what)
}

func gone(err error, what string) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return wrap(err, what)
}

func made(err error, what string) error {
	if apierrors.IsAlreadyExists(err) {
		return errLost
	}
	return wrap(err, what)
}

func wrap(err error, what string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
