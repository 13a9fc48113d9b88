// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package singletonjob

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

func (w *world) stale() client.WithWatch { return w.staleView(true) }

func (w *world) staleView(alsoPods bool) client.WithWatch {
	w.Helper()
	var jobs v1alpha1.SingletonJobList
	var pods corev1.PodList
	w.must(api.List(w.Context(), &jobs, client.InNamespace(w.ns)))
	w.must(api.List(w.Context(), &pods, client.InNamespace(w.ns)))
	return interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			job, ok := o.(*v1alpha1.SingletonJob)
			if !ok {
				return c.Get(ctx, key, o, opts...)
			}
			for i := range jobs.Items {
				if jobs.Items[i].Name == key.Name {
					jobs.Items[i].DeepCopyInto(job)
					return nil
				}
			}
			return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("singletonjobs").GroupResource(), key.Name)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if out, ok := list.(*corev1.PodList); ok && alsoPods {
				pods.DeepCopyInto(out)
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	})
}

func TestTwoReconcilersWithStaleCaches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	var views []client.WithWatch
	created := func() int {
		n := 0
		for _, write := range w.writes {
			if strings.HasPrefix(write, "create Pod/") {
				n++
			}
		}
		return n
	}
	act := func() {
		views = append(views, w.stale())
		for _, view := range views {
			if _, err := w.reconcileWith(w.reconciler(view)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 6 {
		act()
		if _, err := w.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	w.settle()
	w.wantPods("work-0")
	if n := created(); n != 1 {
		t.Errorf("%d creates: %v", n, w.writes)
	}

	w.hold("work-0")
	act()
	w.must(api.Delete(t.Context(), w.pod("work-0")))
	for range 3 {
		act()
		w.settle()
	}
	w.release(v1alpha1.OutcomeStopped)
	for range 3 {
		act()
		w.settle()
	}
	w.reap("work-0")
	act()
	w.settle()
	w.wantPods("work-1")
	w.wantHistory("work-0 Stopped")
	if n := created(); n != 2 {
		t.Errorf("%d creates: %v", n, w.writes)
	}
}

func TestPodFromStaleViewIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	w.settle()
	late := w.pod("work-0").DeepCopy()
	late.Name, late.UID, late.ResourceVersion = "work-7", "", ""
	w.must(api.Create(t.Context(), late))
	w.settle()
	w.wantPods("work-0")
}

func TestLeaseFromStaleViewIsNeverOpened(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(toCompletion(corev1.RestartPolicyNever))
	w.settle()
	view := w.stale()
	w.hold("work-0")
	w.release(v1alpha1.OutcomeSucceeded)
	w.end("work-0", 0)
	w.settle()
	w.must(api.Delete(t.Context(), w.lease()))
	w.must(api.Delete(t.Context(), w.pod("work-0"), client.GracePeriodSeconds(0)))
	w.settle()

	if _, err := w.reconcileWith(w.reconciler(view)); err != nil {
		t.Fatal(err)
	}
	if w.exists(&coordinationv1.Lease{}, w.name) {
		t.Fatal("a stale view made a lease for a completed job")
	}
	// Its live look, too, came before the completion: the create goes through.
	job := w.job()
	l := lease.New(metav1.ObjectMeta{Namespace: w.ns, Name: w.name, OwnerReferences: []metav1.OwnerReference{*ownerReference(job)}},
		lease.Config{Duration: 15 * time.Second, RenewInterval: 5 * time.Second, OverlapPolicy: v1alpha1.OverlapFence, RenewedBy: v1alpha1.RenewedByAgent}, lease.Carry{})
	w.must(api.Create(t.Context(), l))
	for range 3 {
		if _, err := w.reconcileWith(w.reconciler(view)); err != nil {
			t.Fatal(err)
		}
	}
	if w.exists(&coordinationv1.Lease{}, w.name) && w.record().Closed == "" {
		t.Error("the lease of a completed job is open")
	}
	w.settle()
	w.wantPods()
}

// A create that was judged before the newest terms may land after the Lease
// that knew of them has vanished.
func TestLeaseThatKnowsTooLittleIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	w.settle()
	w.hold("work-0")
	w.settle()
	before, l := w.record(), w.lease()
	l.Finalizers = nil
	w.must(api.Update(t.Context(), l))
	w.must(api.Delete(t.Context(), l))
	late := lease.New(metav1.ObjectMeta{Namespace: w.ns, Name: w.name, OwnerReferences: []metav1.OwnerReference{*ownerReference(w.job())}},
		lease.Config{Duration: 15 * time.Second, RenewInterval: 5 * time.Second, OverlapPolicy: v1alpha1.OverlapFence, RenewedBy: v1alpha1.RenewedByAgent}, lease.Carry{})
	w.must(api.Create(t.Context(), late))
	w.settle()
	if r := w.record(); !r.Open() || r.GrantHolder != before.GrantHolder || r.Token < before.Token || r.Closed != "" {
		t.Errorf("the lease says holder %q, token %d, open %t, closed %q; want the term of %s with token %d carried over",
			r.GrantHolder, r.Token, r.Open(), r.Closed, before.GrantHolder, before.Token)
	}
	if h := w.job().Status.Holder; h == nil || lease.Holder(h.Pod, string(h.UID)) != before.GrantHolder {
		t.Errorf("status forgot the holder: %v", h)
	}
}

func TestStaleReservationMakesNoPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	w.crash = func(write string, after bool) error {
		if write == "create Pod/work-0" && !after {
			return errCrash
		}
		return nil
	}
	for range 6 {
		_, _ = w.reconcile() // Up to the create, which fails.
	}
	w.crash = nil
	if got := w.job().Status.ActiveOrdinals; !slices.Equal(got, []int32{0}) {
		t.Fatalf("active ordinals are %v", got)
	}
	view := w.stale()
	w.settle()
	w.must(api.Delete(t.Context(), w.pod("work-0")))
	w.settle()
	w.wantPods("work-1")
	from := len(w.writes)
	if _, err := w.reconcileWith(w.reconciler(view)); err != nil {
		t.Fatal(err)
	}
	if i := slices.Index(w.writes[from:], "create Pod/work-0"); i >= 0 {
		t.Errorf("writes were %v", w.writes[from:])
	}
	w.wantPods("work-1")
}

func TestJobWaitsForUnseenPods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	w.settle()
	late := w.pod("work-0").DeepCopy()
	late.Name, late.UID, late.ResourceVersion = "work-7", "", ""
	w.edit(func(job *v1alpha1.SingletonJob) { job.Spec.Suspend = ptr.To(true) })
	w.settle()
	w.wantPods()
	w.must(api.Delete(t.Context(), w.job()))
	w.loseLease()
	w.crash = func(write string, after bool) error {
		if write == "patch SingletonJob/work" && !after {
			return errCrash
		}
		return nil
	}
	if _, err := w.reconcile(); !errors.Is(err, errCrash) {
		t.Fatalf("did not crash: %v", err)
	}
	w.crash = nil
	view := w.stale()
	w.must(api.Create(t.Context(), late))
	for range 3 {
		if _, err := w.reconcileWith(w.reconciler(view)); err != nil {
			t.Fatal(err)
		}
	}
	if !w.exists(&v1alpha1.SingletonJob{}, w.name) {
		t.Fatal("the job is gone, and its pod has a finalizer")
	}
	w.settle()
	w.wantPods()
	if w.exists(&v1alpha1.SingletonJob{}, w.name) {
		t.Error("the job is still there")
	}
}

func TestUnseenJobHasNoOrphans(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	view := w.staleView(false)
	w.create(nil)
	w.settle()
	w.hold("work-0")
	w.must(api.Delete(t.Context(), w.pod("work-0")))
	w.release(v1alpha1.OutcomeStopped)
	from := len(w.writes)
	if _, err := w.reconcileWith(w.reconciler(view)); err != nil {
		t.Fatal(err)
	}
	if len(w.writes) != from {
		t.Errorf("wrote %v", w.writes[from:])
	}
}
