// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package singletonjob

import (
	"errors"
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
	tries := 0
	for range 12 {
		if _, err := w.reconcileWith(r); apierrors.IsInvalid(err) {
			tries++
		} else {
			w.must(err)
		}
	}
	if tries < 2 {
		t.Errorf("tried %d times", tries)
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
