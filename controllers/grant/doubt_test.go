// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/controllers/grant/plan"
)

// A cache may hold a pod that is gone, as after a restore of the store. The
// plan alone would grant to it.
func TestAPodThatIsGoneIsNotGrantedTo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createLease()
	phantom := w.createPod("a", cold)
	w.createPod("b", cold)
	var recorded corev1.PodList
	w.must(w.api.List(t.Context(), &recorded, client.InNamespace(w.key.Namespace)))
	w.must(w.api.Delete(t.Context(), phantom))

	r := w.instance(frozen(&recorded))
	o, err := r.observe(t.Context(), w.key)
	w.must(err)
	if naive := plan.Decide(o.Observed).Grantee(); naive == nil || naive.Name != "a" {
		t.Fatalf("the control grants to %v, want the pod that is gone", naive)
	}
	w.reconcile(r)
	w.held("b")
}

func TestAStoreThatWentBackwardsIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createLease()
	older := ""
	r := w.instance(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		err := c.Get(ctx, key, o, opts...)
		if _, ok := o.(*coordinationv1.Lease); ok && older != "" {
			o.SetResourceVersion(older)
		}
		return err
	}})
	var told []string
	r.Restored = func(err error) { told = append(told, err.Error()) }
	w.reconcile(r)
	w.edit(note("example.com/edited", "yes"))
	w.reconcile(r)
	if len(told) != 0 {
		t.Fatalf("told of a restore while versions rose: %q", told)
	}
	older = "1"
	w.reconcile(r)
	if len(told) != 1 || !strings.Contains(told[0], "older copy") {
		t.Errorf("told %q, want one word about the restore", told)
	}
}
