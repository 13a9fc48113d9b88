// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package singletonjob

import (
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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1alpha1"
)

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

// A pod that the API server refuses is told of, tried again, and made once it is
// admitted.
func TestRefusedPodIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mount := corev1.VolumeMount{Name: "nowhere", MountPath: "/data"}
	w.create(func(job *v1alpha1.SingletonJob) {
		job.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{mount}
	})
	r := w.reconciler(api)
	var waits []time.Duration
	for range 60 {
		result, err := w.reconcileWith(r)
		if client.IgnoreNotFound(err) != nil && !apierrors.IsInvalid(err) {
			t.Fatal(err)
		}
		if result.RequeueAfter >= leastHeld {
			waits = append(waits, result.RequeueAfter)
			w.clock.SetTime(w.clock.Now().Add(result.RequeueAfter))
		}
	}
	if got := fmt.Sprint(waits[:6]); got != "[1s 2s 4s 8s 15s 15s]" {
		t.Errorf("waits are %s", got)
	}
	w.wantCondition(v1alpha1.ConditionBlocked, "True/WriteRefused")
	message := meta.FindStatusCondition(w.job().Status.Conditions, v1alpha1.ConditionBlocked).Message
	for _, word := range []string{"create pod work-0", "volumeMounts[0].name", "Correct the job's template"} {
		if !strings.Contains(message, word) {
			t.Errorf("no %q in %q", word, message)
		}
	}
	if got := w.told(); !slices.Equal(got, []string{"WriteRefused"}) {
		t.Errorf("events are %v", got)
	}
	// Correcting the spec is not waited with.
	w.edit(func(job *v1alpha1.SingletonJob) { job.Spec.Template.Spec.Containers[0].VolumeMounts = nil })
	for range 4 {
		_, err := w.reconcileWith(r)
		w.must(err)
	}
	w.wantPods("work-0")
	w.wantCondition(v1alpha1.ConditionBlocked, "False/NotBlocked")
	if got := w.told(); !slices.Equal(got, []string{"Unblocked"}) {
		t.Errorf("events are %v", got)
	}
}

// An answer that is never the same, as with a request's number in it, is as good
// as one that is: nothing is written while the refused write is held back.
func TestRefusalThatVaries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	tries := 0
	w.crash = func(write string, after bool) error {
		if strings.HasPrefix(write, "create Pod/") && !after {
			tries++
			return apierrors.NewForbidden(corev1.Resource("pods"), "work-0", fmt.Errorf("request %c refused", 'a'+tries%26))
		}
		return nil
	}
	r := w.reconciler(api)
	for range 100 {
		if _, err := w.reconcileWith(r); err != nil && !apierrors.IsForbidden(err) {
			t.Fatal(err)
		}
	}
	status := 0
	for _, write := range w.writes {
		if strings.HasPrefix(write, "update status ") {
			status++
		}
	}
	if tries != 1 || status > 5 {
		t.Errorf("%d tries and %d status writes in 100 looks", tries, status)
	}
	w.wantCondition(v1alpha1.ConditionBlocked, "True/WriteRefused")
}

// Even the very first write of a job may be refused.
func TestRefusedFinalizerIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	w.crash = func(write string, after bool) error {
		if strings.HasPrefix(write, "patch SingletonJob/") && !after {
			return apierrors.NewForbidden(corev1.Resource("singletonjobs"), w.name, errors.New("house rules"))
		}
		return nil
	}
	r := w.reconciler(api)
	for range 4 {
		if _, err := w.reconcileWith(r); err != nil && !apierrors.IsForbidden(err) {
			t.Fatal(err)
		}
	}
	w.wantCondition(v1alpha1.ConditionBlocked, "True/WriteRefused")
}

// A status that may not be written can be told of by an event only.
func TestRefusedStatusIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	w.crash = func(write string, after bool) error {
		if strings.HasPrefix(write, "update status ") && !after {
			return apierrors.NewForbidden(corev1.Resource("singletonjobs"), w.name, errors.New("house rules"))
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
		t.Fatalf("error is %v; writes %v", err, w.writes)
	}
	if got := w.told(); !slices.Equal(got, []string{"WriteRefused"}) {
		t.Errorf("events are %v", got)
	}
}
