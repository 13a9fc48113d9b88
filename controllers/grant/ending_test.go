// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
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
