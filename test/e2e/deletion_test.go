// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// testDeletion: when a job with a live holder is deleted, its work ends before
// its Lease goes, and nothing is left.
func testDeletion(t *testing.T) {
	w := newWorld(t)
	const name = "ending"
	w.create(name, probe("-child"))
	s := w.working(name, 0, time.Minute)
	began := time.Now()
	w.kubectl("-n", w.ns, "delete", "sj", name, "--timeout=60s")
	w.measured("deletion of a job with a live holder", time.Since(began))
	w.nothingLeft(name)
	gone, ok := w.seen.goneAt(w.recorded(name))
	if !ok {
		t.Fatal("nobody saw the Lease go")
	}
	for _, each := range w.starts(name) {
		if !each.Last.Before(gone) {
			t.Errorf("%v lived when the Lease had gone at %s", each, gone)
		}
	}
	w.nothingNew(name, s.Token, 2*time.Second)
}

// nothingLeft makes sure that nothing remains of a job.
func (w *world) nothingLeft(name string) {
	w.Helper()
	access := metav1.ObjectMeta{Namespace: w.ns, Name: "leasehold-" + name}
	w.gone(20*time.Second,
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name}},
		&rbacv1.Role{ObjectMeta: access}, &rbacv1.RoleBinding{ObjectMeta: access})
	w.none(name, &corev1.PodList{})
}

// none waits until a job has no more objects of a kind.
func (w *world) none(job string, list client.ObjectList) {
	w.Helper()
	if err := w.Client.List(w.Context(), list, client.InNamespace(w.ns), client.MatchingLabels{"leasehold.dev/job": job}); err != nil {
		w.Fatal(err)
	}
	_ = meta.EachListItem(list, func(o runtime.Object) error {
		if object, ok := o.(client.Object); ok {
			w.gone(20*time.Second, object)
		}
		return nil
	})
}

// testNamespaceDeletion: a namespace with a live holder in it can be deleted.
func testNamespaceDeletion(t *testing.T) {
	w := newWorld(t)
	w.create("doomed")
	w.create("doomed-too", kubelet)
	w.working("doomed", 0, time.Minute)
	w.working("doomed-too", 0, time.Minute)
	w.mayOverlap("doomed-too")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.ns}}
	began := time.Now()
	if err := w.Client.Delete(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	w.gone(2*time.Minute, namespace)
	w.measured("deletion of a namespace with live holders", time.Since(began))
}
