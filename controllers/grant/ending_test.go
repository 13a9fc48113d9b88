// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"maps"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/controllers/grant/plan"
)

// A pod that is deleted while it still starts may never be reported to have
// ended: its containers never were. Under Kubelet its lease lapses all the
// same, though its node is well.
func TestAPodThatEndsDuringItsStartDoesNotHoldItsLeaseForEver(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		deleted bool
		open    bool
	}{
		"deleted":                   {deleted: true, open: false},
		"the control: it may start": {deleted: false, open: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.createLease(kubelet)
			a := w.createPod("a", cold, func(p *corev1.Pod) {
				p.Finalizers = []string{"example.com/keep"}
				p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(30))
			})
			r := w.instance()
			w.settle(r)
			node := w.bind(a)
			if tc.deleted {
				w.must(w.api.Delete(t.Context(), w.pod("a")))
			}
			for range 6 {
				w.clock.Step(10 * time.Second)
				beatNode(w, node)
				w.reconcile(r)
			}
			if open := w.record().Open(); open != tc.open {
				t.Errorf("after a minute the term is open: %t, want %t", open, tc.open)
			}
		})
	}
}

// beatNode renews a node's lease.
func beatNode(w *world, node *coordinationv1.Lease) {
	w.t.Helper()
	node.Spec.RenewTime = &metav1.MicroTime{Time: w.clock.Now()}
	w.must(w.api.Update(w.t.Context(), node))
}

// bind binds the pod to a node whose lease it returns, as scheduler and kubelet
// would.
func (w *world) bind(p *corev1.Pod) *coordinationv1.Lease {
	w.t.Helper()
	name := "node-of-" + w.key.Namespace
	w.must(w.api.SubResource("binding").Create(w.t.Context(), w.pod(p.Name), &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: name}}))
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name}}
	w.must(w.api.Create(w.t.Context(), l))
	return l
}

// That the pod was ready once is known to whoever watches; a process that was
// started since must know it, too, or a pod that is not ready any more would hold
// the lease for its whole take-up.
func TestAFreshInstanceKnowsThatThePodWasReady(t *testing.T) {
	t.Parallel()
	for name, forgotten := range map[string]bool{"from the pod": false, "the control: nothing is written there": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.createLease(kubelet)
			a := w.createPod("a", cold)
			r := w.instance()
			w.settle(r)
			node := w.bind(a)
			running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
			w.report(a, running, true)
			w.settle(r)
			if forgotten {
				p := w.pod("a")
				delete(p.Annotations, v1alpha1.AnnotationWasReady)
				w.must(w.api.Update(t.Context(), p))
			}
			w.report(a, running, false)
			fresh := w.instance()
			for range 4 {
				w.reconcile(fresh)
				w.clock.Step(term / 3)
				beatNode(w, node)
			}
			w.reconcile(fresh)
			if open := w.record().Open(); open != forgotten {
				t.Errorf("open: %t, want %t", open, forgotten)
			}
		})
	}
}

// What a kubelet does not admit never starts, and no phase proves that. The
// report that it makes when the pod is deleted does.
func TestAPodThatItsNodeRefusesEndsItsTermByTheReportOfItsDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createLease(kubelet, forbid)
	a := w.createPod("a", cold, ours, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(30)) })
	w.createPod("b", cold, ours)
	r := w.instance()
	w.settle(r)
	w.bind(a)
	p := w.pod("a")
	p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "NodeAffinity", Message: "Pod was rejected: Pod Predicate NodeAffinity failed"}
	w.must(w.api.Status().Update(t.Context(), p))
	w.settle(r)
	if p = w.pod("a"); p == nil || p.DeletionTimestamp == nil || !w.record().Open() {
		t.Fatalf("want it deleted, kept, and its term open: %v", p)
	}
	if said := strings.Join(spoken(r), "\n"); !strings.Contains(said, "Predicate NodeAffinity failed") {
		t.Errorf("events:\n%s", said)
	}
	w.waits("b")
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "work", Image: "work", State: died(137)}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "PodFailed"}}
	w.must(w.api.Status().Update(t.Context(), p))
	w.settle(r)
	w.held("b")
	if w.pod("a") != nil {
		t.Error("its finalizer was not taken off")
	}
}

// A note for a pod whose name another has taken by now is a lost race, and for
// nobody.
func TestThatAPodWasReadyIsWrittenOnNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createLease()
	gone := w.createPod("a", cold)
	w.must(w.api.Delete(t.Context(), gone))
	other := w.createPod("a", cold, func(p *corev1.Pod) { p.Annotations = map[string]string{"example.com/a": "b"} })
	r := w.instance()
	for name, p := range map[string]*corev1.Pod{"gone": gone, "the control: there": other} {
		did, err := r.noteReady(t.Context(), &observation{}, plan.NoteReady{Pod: p, Token: name})
		if err != nil || did.refused || did.lost {
			t.Errorf("%s: %+v, %v", name, did, err)
		}
	}
	want := map[string]string{"example.com/a": "b", v1alpha1.AnnotationWasReady: "the control: there"}
	if got := w.pod("a").Annotations; !maps.Equal(got, want) {
		t.Errorf("annotations %v, want %v", got, want)
	}
}
