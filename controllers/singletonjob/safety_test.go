// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package singletonjob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// stale returns a client whose reads of jobs and pods answer as of now, for
// ever.
func (w *world) stale() client.WithWatch {
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
			if out, ok := list.(*corev1.PodList); ok {
				pods.DeepCopyInto(out)
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	})
}

// Two managers, each with caches as old as any that ever were: whatever they
// do, one pod is made for each ordinal, and none that stays beyond those wanted.
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

// A create from a view so stale that even its live look came before: the pod
// has no reserved ordinal, and goes.
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

// A manager that read the job before it completed finds no Lease, creates one,
// and must not open it.
func TestLeaseFromStaleViewStaysClosed(t *testing.T) {
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
	w.settle()
	if r := w.record(); r.Closed == "" {
		t.Error("the lease of a completed job is open")
	}
	w.wantPods("work-0")
}

func TestUnmanagedLeaseIsNeverTouched(t *testing.T) {
	t.Parallel()
	for name, labels := range map[string]map[string]string{
		"unmanaged": nil, "of another owner": {v1alpha1.LabelManaged: "true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: w.name, Labels: labels}}
			w.must(api.Create(t.Context(), l))
			version := w.lease().ResourceVersion
			w.create(nil)
			for range 3 {
				if result := w.settle(); result.RequeueAfter != 15*time.Second {
					t.Errorf("looks again after %s", result.RequeueAfter)
				}
			}
			w.wantCondition(v1alpha1.ConditionBlocked, "True/LeaseConflict")
			w.wantPods()
			if got := w.told(); !slices.Equal(got, []string{"LeaseConflict"}) {
				t.Errorf("events are %v", got)
			}
			w.must(api.Delete(t.Context(), w.job()))
			w.settle()
			if w.exists(&v1alpha1.SingletonJob{}, w.name) {
				t.Error("the job cannot be deleted")
			}
			if got := w.lease().ResourceVersion; got != version {
				t.Errorf("the lease was written: version %s, was %s", got, version)
			}
		})
	}
}

func TestConflictEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.must(api.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: w.name}}))
	w.create(nil)
	w.settle()
	w.must(api.Delete(t.Context(), w.lease()))
	w.settle()
	w.wantCondition(v1alpha1.ConditionBlocked, "False/NotBlocked")
	w.wantPods("work-0")
	if got := w.told(); !slices.Equal(got, []string{"LeaseConflict", "Unblocked"}) {
		t.Errorf("events are %v", got)
	}
}

func TestPodConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "work-0"}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "example.com/app:1"}}
	w.must(api.Create(t.Context(), pod))
	w.create(nil)
	w.settle()
	w.wantCondition(v1alpha1.ConditionBlocked, "True/PodConflict")
	if got := w.pod("work-0").ResourceVersion; got != pod.ResourceVersion {
		t.Error("the stranger was written")
	}
	w.must(api.Delete(t.Context(), pod))
	w.settle()
	w.wantCondition(v1alpha1.ConditionBlocked, "False/NotBlocked")
	w.wantPods("work-0")
	if pod := w.pod("work-0"); !metav1.IsControlledBy(pod, w.job()) {
		t.Error("the pod is not the job's")
	}
}

func TestRoleConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "leasehold-work"}}
	w.must(api.Create(t.Context(), role))
	w.create(nil)
	w.settle()
	w.wantCondition(v1alpha1.ConditionBlocked, "True/RoleConflict")
	w.wantPods()
	w.must(api.Delete(t.Context(), role))
	w.settle()
	w.wantPods("work-0")

	// Drift of our own is put right.
	w.must(api.Get(t.Context(), w.key("leasehold-work"), role))
	role.Rules[0].Verbs = []string{"get"}
	w.must(api.Update(t.Context(), role))
	w.settle()
	w.must(api.Get(t.Context(), w.key("leasehold-work"), role))
	if got := role.Rules[0].Verbs; !slices.Equal(got, leaseVerbs) {
		t.Errorf("verbs are %v", got)
	}
}

func TestMinTokenIsRecordedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const least = 1 << 40
	w.crash = func(write string, after bool) error {
		if after && write == "update Lease/work" {
			if floor, recorded := w.record().Config.TokenFloor, w.job().Status.TokenFloor; floor > recorded {
				t.Errorf("the lease permits tokens up to %d, on record is %d", floor, recorded)
			}
		}
		return nil
	}
	w.create(func(job *v1alpha1.SingletonJob) { job.Spec.Lease.MinToken = least })
	w.settle()
	if got := w.job().Status.TokenFloor; got != least+1000 {
		t.Errorf("floor is %d", got)
	}
	w.hold("work-0")
	if got := w.record().Token; got != least {
		t.Errorf("token is %d", got)
	}

	// The Lease is lost: the next token is above all that may have been granted.
	w.release(v1alpha1.OutcomeStopped)
	w.settle()
	w.loseLease()
	w.settle()
	w.hold("work-0")
	if got := w.record().Token; got <= least || got > w.job().Status.TokenFloor {
		t.Errorf("token is %d, floor %d", got, w.job().Status.TokenFloor)
	}
}

func TestDeletedLeaseIsMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	w.settle()
	w.hold("work-0")
	first := w.record().Token
	w.must(api.Delete(t.Context(), w.lease()))
	w.settle()
	w.wantCondition(v1alpha1.ConditionHeld, "True/Live") // Nobody stops the work for it.
	w.release(v1alpha1.OutcomeStopped)
	w.settle()
	w.wantHistory("work-0 Stopped")
	l, r := w.lease(), w.record()
	if l.DeletionTimestamp != nil || r.Closed != "" || r.Phase() != lease.Free || r.Token != first || r.Transitions != 1 {
		t.Errorf("new lease is %+v", r)
	}
	w.hold("work-0")
	if got := w.record(); got.Token <= first || got.Transitions != 2 || w.job().Status.Transitions != 2 {
		t.Errorf("next term is %+v", got)
	}
}

// The Lease is lost while its holder works: the term is carried over, and must
// end before anything is granted.
func TestLostLeaseCarriesTheTerm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	w.settle()
	w.hold("work-0")
	holder := w.record().GrantHolder
	w.loseLease()
	w.settle()
	r := w.record()
	if r.Phase() != lease.Disputed || r.GrantHolder != holder || r.Closed != "" {
		t.Errorf("new lease is %+v", r)
	}
	w.wantCondition(v1alpha1.ConditionHeld, "False/Disputed")
	w.wantPods("work-0")
	w.lapse()
	w.settle()
	w.wantHistory("work-0 Lapsed")
}

// The same, but the status was never written: the pod's own token tells.
func TestLostLeaseCarriesTheTermFromThePod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	w.settle()
	w.grant("work-0")
	w.run("work-0")
	w.confirm()
	holder := w.record().GrantHolder
	w.loseLease()
	w.settle()
	if r := w.record(); r.Phase() != lease.Disputed || r.GrantHolder != holder {
		t.Errorf("new lease is %+v", r)
	}
}

func TestDeletionIsOrderly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	w.settle()
	w.hold("work-0")
	from := len(w.writes)
	w.must(api.Delete(t.Context(), w.job()))
	w.settle()
	w.wantPods("-work-0")
	if r := w.record(); r.Closed != v1alpha1.ClosedDeleting || !r.Open() {
		t.Errorf("lease is %+v", r)
	}
	w.reap("work-0") // Even a forced deletion waits for the term.
	w.settle()
	w.wantPods("-work-0")
	w.lapse()
	w.settle()
	w.wantPods()
	if w.exists(&v1alpha1.SingletonJob{}, w.name) || w.exists(&coordinationv1.Lease{}, w.name) {
		t.Error("job or lease is still there")
	}
	want := []string{"update Lease/work", "delete Pod/work-0", "delete Lease/work", "patch Pod/work-0", "update Lease/work", "patch SingletonJob/work"}
	got := slices.DeleteFunc(slices.Clone(w.writes[from:]), func(s string) bool { return strings.HasPrefix(s, "update status") })
	if !slices.Equal(got, want) {
		t.Errorf("writes were\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A pod whose finalizer goes must have ended on the live Lease, whatever the
// pod itself says.
func TestFinalizerWaitsForTheTerm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(toCompletion(corev1.RestartPolicyNever))
	w.settle()
	w.hold("work-0")
	w.end("work-0", 1)
	w.settle()
	pod := w.pod("work-0")
	if !slices.Contains(pod.Finalizers, v1alpha1.FinalizerOutcome) {
		t.Error("the finalizer is gone while the term is open")
	}
	w.wantPods("work-0")
	if got := w.job().Status.Failed; got != 0 {
		t.Errorf("failed %d times before the term has ended", got)
	}
}

func TestLapsedHolderIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	w.settle()
	w.hold("work-0")
	w.lapse()
	w.must(api.Delete(t.Context(), w.pod("work-0"))) // The grant controller's; the node is unreachable.
	w.settle()
	w.wantPods("-work-0", "work-1")
	w.wantHistory("work-0 Lapsed")
	if got := w.job().Status.ActiveOrdinals; !slices.Equal(got, []int32{1}) {
		t.Errorf("active ordinals are %v", got)
	}
}

func TestRefusedPodIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	w.crash = func(write string, after bool) error {
		if strings.HasPrefix(write, "create Pod/") && !after {
			return apierrors.NewForbidden(corev1.Resource("pods"), "work-0", errors.New("exceeded quota"))
		}
		return nil
	}
	var err error
	for range 10 {
		if _, err = w.reconcile(); err != nil {
			break
		}
	}
	if !apierrors.IsForbidden(err) {
		t.Fatalf("error is %v", err)
	}
	if got := w.told(); !slices.Equal(got, []string{"FailedCreate"}) {
		t.Errorf("events are %v", got)
	}
	w.crash = nil
	w.settle()
	w.wantPods("work-0")
}

// Somebody takes the job's finalizer away, and the garbage collector deletes
// what it left. The next job of the name waits for the open term, then goes on.
func TestOrphansAreReleased(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	w.settle()
	w.hold("work-0")
	job := w.job()
	job.Finalizers = nil
	w.must(api.Update(t.Context(), job))
	w.must(api.Delete(t.Context(), job))
	for _, object := range []client.Object{w.pod("work-0"), w.lease(), &rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		if object.GetName() == "" {
			w.must(api.Get(t.Context(), w.key("leasehold-work"), object))
		}
		w.must(api.Delete(t.Context(), object, client.GracePeriodSeconds(0)))
	}
	w.settle()
	w.wantPods("-work-0")
	w.create(nil)
	w.settle()
	w.wantCondition(v1alpha1.ConditionBlocked, "True/LeaseConflict")
	w.lapse()
	w.settle()
	w.wantCondition(v1alpha1.ConditionBlocked, "False/NotBlocked")
	w.wantPods("work-0")
	if !metav1.IsControlledBy(w.pod("work-0"), w.job()) || !metav1.IsControlledBy(w.lease(), w.job()) {
		t.Error("pod or lease is still the earlier job's")
	}
}

func TestNoJobIsNoError(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if result, err := w.reconcile(); err != nil || !result.IsZero() {
		t.Errorf("%v, %v", result, err)
	}
	if len(w.writes) != 0 {
		t.Error(fmt.Sprint(w.writes))
	}
}
