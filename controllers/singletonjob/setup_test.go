// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package singletonjob

import (
	"context"
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mgrconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/controllers/singletonjob/plan"
	"leasehold.dev/internal/refusal"
)

// manage runs the controller in a manager for the world's namespace.
func (w *world) manage() *Reconciler {
	w.Helper()
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: api.Scheme(), Metrics: server.Options{BindAddress: "0"},
		Controller: mgrconfig.Controller{SkipNameValidation: ptr.To(true)},
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{w.ns: {}}},
	})
	w.must(err)
	r := &Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{},
		Recorder: mgr.GetEventRecorder("leasehold"), AgentImage: "example.com/leasehold-agent:1", ClusterUID: "cluster",
		LeaseRefusals: refusal.NewBoard(),
	}
	w.must(r.SetupWithManager(mgr))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.Error(err)
		}
	})
	return r
}

// await waits, by a watch, until an object of the list's kind is as wanted.
func await[T client.Object](w *world, list client.ObjectList, what string, wanted func(T) bool) T {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	watch, err := api.Watch(ctx, list, client.InNamespace(w.ns))
	w.must(err)
	defer watch.Stop()
	for e := range watch.ResultChan() {
		if object, ok := e.Object.(T); ok && wanted(object) {
			return object
		}
	}
	w.Fatalf("%s did not come about", what)
	panic("unreachable")
}

func (w *world) awaitHeld(reason string) {
	w.Helper()
	await(w, &v1alpha1.SingletonJobList{}, "Held "+reason, func(job *v1alpha1.SingletonJob) bool {
		c := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionHeld)
		return c != nil && c.Reason == reason
	})
}

// The watches wake the controller at every turn; that a look at each turn
// suffices is what the other tests show.
func TestWatches(t *testing.T) {
	w := newWorld(t)
	w.manage()
	w.create(nil)
	await(w, &corev1.PodList{}, "the pod", func(pod *corev1.Pod) bool { return pod.Name == "work-0" })
	await(w, &coordinationv1.LeaseList{}, "an open lease", func(l *coordinationv1.Lease) bool {
		return l.Labels[v1alpha1.LabelManaged] == "true" && l.Annotations[v1alpha1.AnnotationClosed] == ""
	})
	w.grant("work-0")
	w.awaitHeld(plan.ReasonGranted)
	w.run("work-0")
	w.confirm()
	start := time.Now()
	w.awaitHeld(plan.ReasonLive)
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("Held showed only after %s", took)
	}
	w.must(api.Delete(t.Context(), w.job()))
	await(w, &corev1.PodList{}, "the pod's deletion", func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	await(w, &coordinationv1.LeaseList{}, "the lease's closing", func(l *coordinationv1.Lease) bool {
		return l.Annotations[v1alpha1.AnnotationClosed] == string(v1alpha1.ClosedDeleting)
	})
	watch, err := api.Watch(t.Context(), &v1alpha1.SingletonJobList{}, client.InNamespace(w.ns))
	w.must(err)
	defer watch.Stop()
	w.release(v1alpha1.OutcomeStopped)
	for e := range watch.ResultChan() {
		if e.Type == apiwatch.Deleted {
			return
		}
	}
	t.Error("the watch ended before the job did")
}

// A grant that the API server refuses shows on the job, since it cannot show on
// the Lease; and nothing but the grant controller knows when that is over.
func TestARefusedGrantIsTold(t *testing.T) {
	w := newWorld(t)
	r := w.manage()
	w.create(nil)
	await(w, &corev1.PodList{}, "the pod", func(pod *corev1.Pod) bool { return pod.Name == "work-0" })
	blocked := func(reason string) {
		await(w, &v1alpha1.SingletonJobList{}, "Blocked "+reason, func(job *v1alpha1.SingletonJob) bool {
			c := meta.FindStatusCondition(job.Status.Conditions, v1alpha1.ConditionBlocked)
			return c != nil && c.Reason == reason
		})
	}
	r.LeaseRefusals.Note(w.lease(), apierrors.NewForbidden(coordinationv1.Resource("leases"), w.name, errors.New("house rules")))
	blocked(v1alpha1.BlockedWriteRefused)
	r.LeaseRefusals.Note(w.lease(), nil)
	blocked(plan.ReasonNotBlocked)
}

func TestRenewalsWakeNobody(t *testing.T) {
	t.Parallel()
	base := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "x", ResourceVersion: "1", Annotations: map[string]string{}}}
	for name, tc := range map[string]struct {
		change func(*coordinationv1.Lease)
		wakes  bool
	}{
		"renewal":     {func(l *coordinationv1.Lease) { l.Spec.RenewTime = ptr.To(metav1.NowMicro()) }, false},
		"measurement": {func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.AnnotationSectionP99] = "7" }, false},
		"bookkeeping": {func(l *coordinationv1.Lease) { l.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}} }, false},
		"confirm":     {func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.AnnotationStarted] = "x" }, true},
		"blocked":     {func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.AnnotationBlocked] = "A: b" }, true},
		"holder":      {func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = ptr.To("x") }, true},
		"deletion":    {func(l *coordinationv1.Lease) { l.DeletionTimestamp = ptr.To(metav1.Now()) }, true},
		"label":       {func(l *coordinationv1.Lease) { l.Labels = map[string]string{v1alpha1.LabelManaged: "true"} }, true},
		"owner":       {func(l *coordinationv1.Lease) { l.OwnerReferences = []metav1.OwnerReference{{Name: "x"}} }, true},
		"finalizer":   {func(l *coordinationv1.Lease) { l.Finalizers = []string{"x"} }, true},
	} {
		after := base.DeepCopy()
		after.ResourceVersion = "2"
		tc.change(after)
		if got := actedOn.Update(event.UpdateEvent{ObjectOld: base, ObjectNew: after}); got != tc.wakes {
			t.Errorf("%s wakes: %t", name, got)
		}
	}
	if !actedOn.Update(event.UpdateEvent{}) {
		t.Error("an update that is not understood is dropped")
	}
}
