// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

type leaseObject = coordinationv1.Lease

// A crash strikes at the nth write of a process: before it, or after it was
// done but before the reply came. Everything after fails too.
type crash struct {
	at    int
	after bool

	writes int
}

func (c *crash) funcs() interceptor.Funcs {
	return onWrite(func(write func() error) error {
		c.writes++
		switch {
		case c.writes > c.at:
			return errLost
		case c.writes < c.at:
			return write()
		case c.after:
			return errors.Join(write(), errLost)
		}
		return errLost
	})
}

// ledger records the tokens of all grants that were written, by whomever.
type ledger struct{ tokens []int64 }

func (l *ledger) funcs() interceptor.Funcs {
	return interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
		if err := c.Update(ctx, o, opts...); err != nil {
			return err
		}
		r, err := lease.Parse(o.(*leaseObject))
		if err == nil && r.Open() && (len(l.tokens) == 0 || l.tokens[len(l.tokens)-1] != r.Token) {
			l.tokens = append(l.tokens, r.Token)
		}
		return err
	}}
}

// episode is a state of the world, what happens in it, and what must become of
// it, wherever a process crashes.
type episode struct {
	// begin makes the state, with an instance that does not crash.
	begin func(*world, *Reconciler)
	// pass lets time pass after the crashing instance has first looked.
	pass   time.Duration
	holder string
	gone   []string
}

var episodes = map[string]episode{
	"the first grant": {
		begin: func(w *world, _ *Reconciler) { w.createLease(); w.createPod("a", cold); w.createPod("b", cold) }, holder: "a",
	},
	"the first grant under Forbid": {
		begin: func(w *world, _ *Reconciler) {
			w.createLease(forbid, kubelet)
			w.createPod("a", cold)
			w.createPod("b", cold)
		}, holder: "a",
	},
	"a lapse with a candidate": {
		begin: func(w *world, r *Reconciler) {
			w.createLease()
			w.createPod("a", onNode("node-1"))
			w.reconcile(r)
			w.confirm()
			w.createPod("b", cold)
		}, pass: term, holder: "b", gone: []string{"a"},
	},
	"a lapse without one": {
		begin: func(w *world, r *Reconciler) {
			w.createLease()
			w.createPod("a", onNode("node-1"), ours)
			w.reconcile(r)
			w.confirm()
		}, pass: term, gone: []string{"a"},
	},
	"a take-up that failed": {
		begin: func(w *world, r *Reconciler) {
			w.createLease()
			w.createPod("a", cold, ours)
			w.reconcile(r)
			w.createPod("b", cold, ours)
		}, pass: takeUp, holder: "b", gone: []string{"a"},
	},
	"a death under Forbid": {
		begin: func(w *world, r *Reconciler) {
			w.createLease(forbid)
			a := w.createPod("a", onNode("node-1"))
			w.settle(r)
			w.confirm()
			w.createPod("b", cold)
			w.report(a, died(1), false)
		}, holder: "b",
	},
}

func TestACrashBetweenAnyTwoWritesLeavesWhatAFreshProcessCanFinish(t *testing.T) {
	for name, e := range episodes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			struck := 0
			for at, done := 1, false; !done; at++ {
				for _, after := range []bool{false, true} {
					c := &crash{at: at, after: after}
					e.run(t, c)
					done = c.writes < at
				}
				struck++
			}
			if struck < 3 {
				t.Errorf("only %d writes were struck", struck-1)
			}
		})
	}
}

func (e episode) run(t *testing.T, c *crash) {
	t.Helper()
	w := newWorld(t)
	var granted ledger
	e.begin(w, w.instance(granted.funcs()))
	crashing := w.instance(granted.funcs(), c.funcs())
	for i := range 4 {
		if _, err := w.look(crashing); err != nil {
			break // The process is no more.
		}
		if i == 0 {
			w.clock.Step(e.pass)
		}
	}
	fresh := w.instance(granted.funcs())
	w.settle(fresh)
	if r := w.record(); r.Open() && r.GrantHolder == e.first(w) {
		w.clock.Step(e.pass) // The fresh process measures ages itself.
		w.settle(fresh)
	}
	e.check(w, &granted, fmt.Sprintf("crash at write %d, after it: %t", c.at, c.after))
}

// first is the holder that time ends.
func (e episode) first(w *world) string {
	if p := w.pod("a"); p != nil && e.holder != "a" {
		return lease.Holder(p.Name, string(p.UID))
	}
	return ""
}

func (e episode) check(w *world, granted *ledger, where string) {
	t := w.t
	t.Helper()
	t.Log(where)
	for i := 1; i < len(granted.tokens); i++ {
		if granted.tokens[i] <= granted.tokens[i-1] {
			t.Errorf("tokens %v do not rise", granted.tokens)
		}
	}
	if e.holder != "" {
		w.held(e.holder)
	} else if w.record().Open() {
		t.Errorf("the term is open: %+v", w.record())
	}
	for _, name := range e.gone {
		if w.pod(name) != nil {
			t.Errorf("%s is still there", name)
		}
	}
	var pods corev1.PodList
	w.must(w.api.List(t.Context(), &pods, client.InNamespace(w.key.Namespace)))
	for _, p := range pods.Items {
		waits := len(p.Spec.SchedulingGates) == 1 && p.Annotations[v1alpha1.AnnotationToken] == ""
		if !waits && p.Name != e.holder && p.Status.Phase != corev1.PodFailed {
			t.Errorf("%s was let go beside the holder %s", p.Name, e.holder)
		}
	}
}
