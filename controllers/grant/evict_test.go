// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/api/v1alpha1"
)

// removals counts how pods are removed, and with which UIDs as precondition.
type removals struct {
	deleted, evicted []types.UID
}

func (r *removals) funcs() interceptor.Funcs {
	return interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			var all client.DeleteOptions
			all.ApplyOptions(opts)
			r.deleted = append(r.deleted, *all.Preconditions.UID)
			return c.Delete(ctx, o, opts...)
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, s client.Object, opts ...client.SubResourceCreateOption) error {
			if e, ok := s.(*policyv1.Eviction); ok && sub == "eviction" {
				r.evicted = append(r.evicted, *e.DeleteOptions.Preconditions.UID)
			}
			return c.SubResource(sub).Create(ctx, o, s, opts...)
		},
	}
}

// lapsed returns a world in which the pod has just lapsed.
func lapsed(t *testing.T, r func(*world) *Reconciler, edits ...podEdit) (*world, *Reconciler) {
	t.Helper()
	w := newWorld(t)
	w.createLease()
	w.createPod("a", append(edits, onNode("node-1"))...)
	i := r(w)
	w.reconcile(i)
	w.confirm()
	w.reconcile(i)
	w.clock.Step(term)
	return w, i
}

func TestOurPodsAreDeletedAndOthersEvictedEachByUID(t *testing.T) {
	for name, edits := range map[string][]podEdit{"ours": {ours}, "others": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen removals
			w, r := lapsed(t, func(w *world) *Reconciler { return w.instance(seen.funcs()) }, edits...)
			uid := w.pod("a").UID
			w.settle(r)
			if w.pod("a") != nil {
				t.Error("the pod is still there")
			}
			used, other := seen.evicted, seen.deleted
			if edits != nil {
				used, other = other, used
			}
			if len(used) != 1 || used[0] != uid || len(other) != 0 {
				t.Errorf("deleted %v, evicted %v, want %s once", seen.deleted, seen.evicted, uid)
			}
		})
	}
}

func TestAPodThatTookTheNameOfALapsedOneIsSpared(t *testing.T) {
	t.Parallel()
	var w *world
	replace := interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
		w.must(w.api.Delete(t.Context(), w.pod("a"), client.GracePeriodSeconds(0)))
		w.createPod("a", ours, cold)
		return c.Delete(ctx, o, opts...)
	}}
	w, r := lapsed(t, func(made *world) *Reconciler { w = made; return made.instance(replace) }, ours)
	old := w.pod("a").UID
	if result := w.reconcile(r); result.RequeueAfter != 0 {
		t.Errorf("a removal that is done is tried again: %+v", result)
	}
	if p := w.pod("a"); p == nil || p.UID == old {
		t.Error("the new pod was removed for the old one's lapse")
	}
	w.waits("a")
}

// instance0 is instance without anything in between.
func (w *world) instance0() *Reconciler { return w.instance() }

// frozen is a cache whose watch is stuck: its lists stay as they were recorded.
func frozen(recorded *corev1.PodList) interceptor.Funcs {
	return interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if pods, ok := list.(*corev1.PodList); ok {
			recorded.DeepCopyInto(pods)
			return nil
		}
		return c.List(ctx, list, opts...)
	}}
}

func TestADisruptionBudgetIsHeededShownAndKeepsThePodACandidate(t *testing.T) {
	t.Parallel()
	w, r := lapsed(t, (*world).instance0)
	one := intstr.FromInt32(1)
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: "keep"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}},
	}
	w.must(w.api.Create(t.Context(), budget))
	budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, ExpectedPods: 1, CurrentHealthy: 1, DesiredHealthy: 1}
	w.must(w.api.Status().Update(t.Context(), budget)) // What its controller would write.
	first := w.record().Token
	uid := w.pod("a").UID

	if result := w.reconcile(r); result.RequeueAfter != retryEviction {
		t.Errorf("looks again after %s, want %s", result.RequeueAfter, retryEviction)
	}
	if p := w.pod("a"); p == nil || p.UID != uid || p.DeletionTimestamp != nil {
		t.Fatal("the budget was bypassed")
	}
	if w.record().Open() {
		t.Error("the term did not end")
	}
	if said := strings.Join(spoken(r), "\n"); !strings.Contains(said, "EvictionRefused") || !strings.Contains(said, "disruption budget") {
		t.Errorf("events:\n%s", said)
	}
	w.settle(r)
	if second := w.held("a").Token; second <= first {
		t.Errorf("token %d after %d", second, first)
	}

	// Negative control: without the budget the pod goes, and is not granted.
	w.confirm()
	w.reconcile(r)
	w.must(w.api.Delete(t.Context(), budget))
	w.clock.Step(term)
	w.settle(r)
	if w.pod("a") != nil {
		t.Error("the pod was not evicted without a budget")
	}
}

func TestUnderForbidAPodStaysUntilItsProofWasSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createLease(forbid, kubelet)
	w.createPod("a", cold)
	w.createPod("b", cold)
	r := w.instance()
	w.settle(r)
	w.held("a")
	// Deleted before it was bound: without a finalizer the object would be gone,
	// and with it the proof that nothing ran.
	w.must(w.api.Delete(t.Context(), w.pod("a")))
	if w.pod("a") == nil {
		t.Fatal("the holder's object is gone before anybody looked")
	}
	w.settle(r)
	w.held("b")
	if w.pod("a") != nil {
		t.Error("the finalizer was not taken off")
	}
	// Negative control: one that the Lease's policy does not need is not kept.
	w.edit(note(v1alpha1.AnnotationOverlapPolicy, string(v1alpha1.OverlapFence)))
	w.createPod("c", cold)
	if p := w.pod("c"); len(p.Finalizers) != 0 {
		t.Errorf("finalizers %v", p.Finalizers)
	}
	// The Lease vanishes by force: whoever is deleted may go.
	w.edit(func(l *leaseObject) { l.Finalizers = nil })
	w.must(w.api.Delete(t.Context(), w.lease()))
	w.must(w.api.Delete(t.Context(), w.pod("b")))
	w.reconcile(r)
	if w.pod("b") != nil {
		t.Error("a pod without a Lease hangs on our finalizer")
	}
}
