// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

func TestTwoInstancesThatRaceGrantOnceEachRound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createLease()
	w.createPod("a", onNode("node-1"))
	w.createPod("b", onNode("node-2"))
	instances := []*Reconciler{w.instance(), w.instance()}
	var last int64
	for round := int64(1); round <= 200; round++ {
		var all sync.WaitGroup
		for _, r := range instances {
			all.Go(func() {
				if _, err := w.look(r); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		all.Wait()
		r := w.record()
		if r.Transitions != round || r.Token <= last || !r.Open() {
			t.Fatalf("round %d: %d grants, token %d after %d", round, r.Transitions, r.Token, last)
		}
		last = r.Token
		w.confirm()
		w.release(v1alpha1.OutcomeStopped)
	}
}

// stall is an instance whose patches of pods wait to be let go.
type stall struct {
	reached chan struct{}
	let     chan struct{}
}

func newStall() *stall { return &stall{reached: make(chan struct{}, 1), let: make(chan struct{})} }

func (s *stall) funcs() interceptor.Funcs {
	return interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
		s.reached <- struct{}{}
		<-s.let
		return c.Patch(ctx, o, p, opts...)
	}}
}

// A stalled instance has granted and is about to stamp. Meanwhile another ends
// that grant. The stamp must not land.
func TestALateStampOfAnEndedGrantFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createLease()
	w.createPod("a", cold)
	s := newStall()
	stalled := w.instance(s.funcs())
	done := make(chan bool)
	go func() {
		result, err := w.look(stalled)
		done <- err == nil && result.RequeueAfter == retryConflict
	}()
	<-s.reached // The Lease is granted, the stamp is on its way.
	w.createPod("b", cold)
	granted := w.record().Token
	stale := w.pod("a")

	w.edit(note(v1alpha1.AnnotationClosed, string(v1alpha1.ClosedSuspended)))
	other := w.instance()
	w.settle(other) // Withdrawn before it was stamped.
	w.edit(func(l *leaseObject) { delete(l.Annotations, v1alpha1.AnnotationClosed) })
	w.settle(other)
	w.held("b")
	close(s.let)
	if !<-done {
		t.Error("the stalled instance did not find out that it has lost")
	}
	w.waits("a")

	// Negative control: what the stamp would do that does not test the version.
	body := `[{"op":"add","path":"/metadata/annotations/leasehold.dev~1fencing-token","value":"` + strconv.FormatInt(granted, 10) + `"},` +
		`{"op":"remove","path":"/spec/schedulingGates/0"}]`
	w.must(w.api.Patch(t.Context(), stale, client.RawPatch(types.JSONPatchType, []byte(body))))
	if p := w.pod("a"); len(p.Spec.SchedulingGates) != 0 {
		t.Error("the control kept the gate: this test could not fail")
	}
}

// An ender has marked the pod, and its write of the Lease is still to come. An
// instance that reads the pod after the mark, and the Lease before its end, must
// not stamp: nothing but its own look at the mark stops it.
func TestAPodThatIsMarkedIsNotStampedAlthoughTheLeaseStillSaysGranted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createLease()
	w.createPod("a", cold)
	grantOnly := &crash{at: 2} // It grants, and dies before the stamp.
	if _, err := w.look(w.instance(grantOnly.funcs())); err == nil {
		t.Fatal("no crash")
	}
	first := w.record().Token
	ender := w.instance()
	w.edit(note(v1alpha1.AnnotationClosed, string(v1alpha1.ClosedSuspended)))
	for range 2 { // The mark is retried, each time without its Lease write.
		dying := &crash{at: 2}
		ender.Client = interceptor.NewClient(w.api, dying.funcs())
		ender.Leases = ender.Client
		if _, err := w.look(ender); err == nil {
			t.Fatal("no crash")
		}
	}
	w.edit(func(l *leaseObject) { delete(l.Annotations, v1alpha1.AnnotationClosed) })
	if p := w.pod("a"); p.Annotations[v1alpha1.AnnotationEndedToken] != strconv.FormatInt(first, 10) || !w.record().Open() {
		t.Fatal("the state is not the one to test")
	}
	reader := w.instance()
	w.reconcile(reader)
	if w.record().Open() {
		t.Error("a grant that can not be stamped was not withdrawn")
	}
	w.waits("a")
	w.settle(reader)
	if second := w.held("a").Token; second <= first {
		t.Errorf("token %d after %d", second, first)
	}
}

// A second instance whose watch is stuck, for longer than the duration.
func TestAFrozenCacheStealsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createLease()
	w.createPod("a", onNode("node-1"))
	w.createPod("b", cold)
	healthy := w.instance()
	w.reconcile(healthy)
	w.confirm()

	var recorded corev1.PodList
	w.must(w.api.List(t.Context(), &recorded, client.InNamespace(w.key.Namespace)))
	stuck := w.instance()
	stuck.Client = interceptor.NewClient(w.api, frozen(&recorded))
	w.reconcile(stuck)
	seen := w.clock.Now()
	for range 8 {
		w.clock.Step(term / 3)
		w.confirm()
		if w.clock.Since(seen)%term == 0 {
			w.reconcile(stuck) // Its own deadline wakes it, whatever its watch delivers.
		}
	}
	w.held("a")
	w.waits("b")
	// Nor does it grant what is free to a pod that it alone still sees.
	w.must(w.api.Delete(t.Context(), w.pod("b")))
	w.release(v1alpha1.OutcomeStopped)
	recorded.Items[0].Status.Phase = corev1.PodFailed
	w.reconcile(stuck)
	if r := w.record(); r.Phase() != lease.Free {
		t.Errorf("it granted to a pod that is gone: %s", r.GrantHolder)
	}
	w.settle(healthy)
	w.held("a")
}

// Negative control for the rule that age and version are of one observation:
// the age of what the cache shows, with the version of a live read, steals the
// lease from a holder that renews.
func TestTheNaiveVariantSteals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createLease()
	w.createPod("a", onNode("node-1"))
	b := w.createPod("b", cold)
	w.reconcile(w.instance())
	w.confirm()
	cached, seen := w.lease(), w.clock.Now()
	for range 8 {
		w.clock.Step(term / 3)
		w.confirm()
	}
	naive := func(age time.Duration) error {
		o := lease.Observation{Lease: w.lease(), Age: age}
		l, err := o.Grant(lease.Holder(b.Name, string(b.UID)), "issuer", lease.Basis{Kind: lease.ByLapse}, w.clock.Now())
		if err != nil {
			return err
		}
		return w.api.Update(t.Context(), l)
	}
	if lease.Fingerprint(cached) == lease.Fingerprint(w.lease()) {
		t.Fatal("the holder does not renew")
	}
	if err := naive(0); err == nil {
		t.Error("stolen at age 0: the control is no control")
	}
	if err := naive(w.clock.Since(seen)); err != nil {
		t.Errorf("the naive variant did not steal: %v", err)
	}
}
