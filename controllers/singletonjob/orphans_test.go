// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package singletonjob

import (
	"errors"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1alpha1"
)

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

// take takes an object away from its job, as the garbage collector does.
func (w *world) take(object client.Object) {
	w.Helper()
	before := object.DeepCopyObject().(client.Object)
	object.SetOwnerReferences(nil)
	w.must(api.Patch(w.Context(), object, client.MergeFrom(before)))
}

// --cascade=orphan leaves pod and Lease behind. They go when they are deleted, once
// the term has ended.
func TestLeftBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	w.settle()
	w.hold("work-0")
	w.must(api.Delete(t.Context(), w.job(), client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	w.take(w.pod("work-0"))
	w.take(w.lease())
	job := w.job()
	before := job.DeepCopy()
	job.Finalizers = []string{v1alpha1.FinalizerJob} // "orphan" is done.
	w.must(api.Patch(t.Context(), job, client.MergeFrom(before)))
	w.settle()
	if w.exists(&v1alpha1.SingletonJob{}, "work") {
		t.Fatal("the job is still there")
	}
	w.must(api.Delete(t.Context(), w.pod("work-0"), client.GracePeriodSeconds(0)))
	w.must(api.Delete(t.Context(), w.lease()))
	w.settle()
	w.wantPods("-work-0") // Its term is open.
	if !w.exists(&coordinationv1.Lease{}, "work") {
		t.Fatal("the Lease of an open term is gone")
	}
	w.release(v1alpha1.OutcomeStopped)
	w.settle()
	w.wantPods()
	if w.exists(&coordinationv1.Lease{}, "work") {
		t.Error("the Lease is still there")
	}
}

// A pod that was taken away from a job that goes on is in the way of it until it
// is deleted, and then gone.
func TestTakenAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	w.settle()
	w.hold("work-0")
	w.take(w.pod("work-0"))
	w.settle()
	w.wantCondition(v1alpha1.ConditionBlocked, "True/PodConflict")
	w.must(api.Delete(t.Context(), w.pod("work-0"), client.GracePeriodSeconds(0)))
	w.settle()
	w.release(v1alpha1.OutcomeStopped)
	w.settle()
	w.wantPods("work-0")
	w.wantCondition(v1alpha1.ConditionBlocked, "False/NotBlocked")
	if !metav1.IsControlledBy(w.pod("work-0"), w.job()) {
		t.Error("the pod is not the job's")
	}
}

// What is left of an earlier job may not be written: the next job says so.
func TestRefusedOrphanIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	w.settle()
	w.hold("work-0")
	job := w.job()
	job.Finalizers = nil
	w.must(api.Update(t.Context(), job))
	w.must(api.Delete(t.Context(), job))
	w.must(api.Delete(t.Context(), w.pod("work-0"), client.GracePeriodSeconds(0)))
	w.must(api.Delete(t.Context(), w.lease()))
	for _, object := range []client.Object{&rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		w.must(api.Get(t.Context(), w.key("leasehold-work"), object))
		w.must(api.Delete(t.Context(), object))
	}
	w.lapse()
	w.crash = func(write string, after bool) error {
		if !after && (strings.HasPrefix(write, "patch Pod/") || strings.HasPrefix(write, "update Lease/")) {
			return apierrors.NewForbidden(corev1.Resource("pods"), "work-0", errors.New("house rules"))
		}
		return nil
	}
	w.create(nil)
	r := w.reconciler(api)
	for range 6 {
		if _, err := w.reconcileWith(r); err != nil && !apierrors.IsForbidden(err) {
			t.Fatal(err)
		}
	}
	w.wantCondition(v1alpha1.ConditionBlocked, "True/LeaseConflict")
	w.crash = nil
	w.settle()
	w.wantCondition(v1alpha1.ConditionBlocked, "False/NotBlocked")
	w.wantPods("work-0")
}
