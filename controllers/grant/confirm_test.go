// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// Under Forbid nothing ends a term whose pod object is gone. A candidate is
// deleted, and its finalizer taken off by whoever sees that it holds nothing,
// while another instance, which saw it well, grants to it. The Lease must not
// come to name a pod that is gone as one whose work runs.
func TestAPodThatGoesWhileItIsGrantedDoesNotBlockTheLease(t *testing.T) {
	t.Parallel()
	for name, naive := range map[string]bool{"confirmed after the stamp": false, "the control: confirmed by the grant": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.createLease(forbid, kubelet)
			keep := func(p *corev1.Pod) { p.Finalizers = []string{v1alpha1.FinalizerOutcome} }
			a := w.createPod("a", cold, ours, keep)
			w.reconcile(w.instance(beforeGrant(func(l *leaseObject) {
				w.must(w.api.Delete(t.Context(), w.pod("a")))
				w.free("a")
				if naive {
					l.Annotations[v1alpha1.AnnotationStarted] = string(a.UID)
				}
			})))
			if r := w.record(); r.GrantHolder != lease.Holder("a", string(a.UID)) || w.pod("a") != nil {
				t.Fatal("the state is not the one to test")
			}
			w.createPod("b", cold, ours, keep)
			fresh := w.instance()
			w.settle(fresh)
			if !naive {
				w.held("b")
				return
			}
			w.clock.Step(takeUp)
			w.settle(fresh)
			w.waits("b")
			if !strings.HasPrefix(w.blocked(), v1alpha1.BlockedHolderUnreachable) {
				t.Errorf("this test could not fail: blocked %q", w.blocked())
			}
		})
	}
}

// The other order: the pod is let go by somebody who read it before the stamp.
func TestWhoLetsGoOfAPodHeReadBeforeItsStampFails(t *testing.T) {
	t.Parallel()
	for name, stamped := range map[string]bool{"after the stamp": true, "the control: before the stamp": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.createLease(forbid, kubelet)
			w.createPod("a", cold, ours, func(p *corev1.Pod) { p.Finalizers = []string{v1alpha1.FinalizerOutcome} })
			r := w.instance()
			read := w.pod("a")
			if stamped {
				w.reconcile(r)
			}
			rest := read.DeepCopy()
			rest.Finalizers = nil
			err := w.api.Patch(t.Context(), rest, client.MergeFromWithOptions(read, client.MergeFromWithOptimisticLock{}))
			if failed := err != nil; failed != stamped {
				t.Errorf("failed: %t, want %t: %v", failed, stamped, err)
			}
		})
	}
}

// free takes our finalizers off, as the owner's controller does.
func (w *world) free(name string) {
	w.t.Helper()
	p := w.pod(name)
	p.Finalizers = nil
	w.must(w.api.Update(w.t.Context(), p))
}

// beforeGrant does something once, just before a grant is written.
func beforeGrant(do func(*leaseObject)) interceptor.Funcs {
	done := false
	return interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
		if l, ok := o.(*leaseObject); ok && !done {
			if r, err := lease.Parse(l); err == nil && r.Phase() == lease.Granted {
				done = true
				do(l)
			}
		}
		return c.Update(ctx, o, opts...)
	}}
}
