// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// state is what a Lease is like before an attempt. The protocol's own functions
// bring it there, and make the writes that must pass: a policy that differs from
// the protocol fails here.
type state string

const (
	absent     state = "absent"
	unmanaged  state = "unmanaged"
	competing  state = "competing"
	born       state = "born, closed"
	free       state = "free"
	granted    state = "granted"
	live       state = "live"
	liveJob    state = "live, closes on success"
	seized     state = "seized by a foreign elector"
	wiped      state = "wiped by a foreign elector"
	released   state = "released"
	ofAJob     state = "live, owned by a job and something else"
	endAsked   state = "live, end requested"
	suspended  state = "live, suspended"
	formerPod  state = "live, held by an earlier pod of the holder's name"
	firstNonce       = "work.boot-100.aaaa"
	laterNonce       = "work.boot-200.bbbb"
)

// leaseAttempt is one write to one Lease.
type leaseAttempt struct {
	name    string
	actors  []actor
	state   state
	change  func(*testing.T, attemptOn)
	write   func(context.Context, client.Client, *coordinationv1.Lease) error // default: update
	refused bool
}

// attemptOn is the Lease to change in place, and what the holder knows.
type attemptOn struct {
	*coordinationv1.Lease
	start lease.Start
}

func (a attemptOn) observed() lease.Observation { return lease.Observation{Lease: a.Lease.DeepCopy()} }

// become takes over what a step of the protocol returned.
func (a attemptOn) become(t *testing.T, l *coordinationv1.Lease, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("the protocol refuses this step: %v", err)
	}
	l.DeepCopyInto(a.Lease)
}

func tryLeases(t *testing.T, w *world, enforced bool) {
	forged := slices.Concat(forgedSteps, foreignSteps, forgedGrants, forgedPatches)
	for _, attempt := range slices.Concat(holderSteps, managerSteps, ordinarySteps, competingSteps, forged, repaired(forged)) {
		for _, a := range attempt.actors {
			t.Run(fmt.Sprintf("%s: %s", a, attempt.name), func(t *testing.T) {
				t.Parallel()
				attempt.try(t, w, a, enforced)
			})
		}
	}
}

// repaired are the same writes by those who may do anything: what is refused is
// who writes.
func repaired(forged []leaseAttempt) []leaseAttempt {
	var attempts []leaseAttempt
	for _, attempt := range forged {
		attempt.actors, attempt.refused = []actor{breakGlass, manager}, false
		attempts = append(attempts, attempt)
	}
	return attempts
}

func (l leaseAttempt) try(t *testing.T, w *world, a actor, enforced bool) {
	before, start := w.bring(t, l.state)
	mine := before.DeepCopy()
	if l.change != nil {
		l.change(t, attemptOn{mine, start})
	}
	write := l.write
	if write == nil {
		write = update
	}
	w.judge(t, write(t.Context(), w.client(a), mine), l.refused, enforced)
	affected, err := w.affected(t.Context(), before)
	if err != nil {
		t.Fatal(err)
	}
	if want := !enforced || !l.refused; affected != want {
		t.Errorf("the Lease was affected: %t, want %t", affected, want)
	}
}

func update(ctx context.Context, c client.Client, l *coordinationv1.Lease) error {
	return c.Update(ctx, l)
}

func create(ctx context.Context, c client.Client, l *coordinationv1.Lease) error {
	return c.Create(ctx, l)
}

func remove(ctx context.Context, c client.Client, l *coordinationv1.Lease) error {
	return c.Delete(ctx, l)
}

// removeAll deletes by a selector that matches this Lease alone.
func removeAll(ctx context.Context, c client.Client, l *coordinationv1.Lease) error {
	return c.DeleteAllOf(ctx, l, client.InNamespace(l.Namespace), client.MatchingFields{"metadata.name": l.Name})
}

// newLease is a Lease as its maker creates it.
func (w *world) newLease(name string, edit func(*lease.Config)) *coordinationv1.Lease {
	config := lease.Config{
		Duration: 15 * time.Second, RenewInterval: 5 * time.Second,
		TakeUp: lease.DefaultTakeUp, LockDelay: lease.DefaultLockDelay,
		OverlapPolicy: v1alpha1.OverlapFence, RenewedBy: v1alpha1.RenewedByAgent, TokenFloor: lease.MaxToken,
	}
	if edit != nil {
		edit(&config)
	}
	return lease.New(metav1.ObjectMeta{Namespace: namespace, Name: name}, config, lease.Carry{})
}

// bring makes a Lease of its own and brings it to a state.
func (w *world) bring(t *testing.T, to state) (*coordinationv1.Lease, lease.Start) {
	t.Helper()
	l := w.newLease(w.unique("lease"), func(c *lease.Config) { c.CloseOnSuccess = to == liveJob })
	start := lease.Start{Holder: holderOf(w.holder), Nonce: firstNonce}
	switch to {
	case absent:
		return l, start
	case unmanaged:
		l = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name}}
	case competing:
		l = newCompeting(l.Name, start)
	case ofAJob:
		l.OwnerReferences = []metav1.OwnerReference{
			{APIVersion: v1alpha1.GroupVersion.String(), Kind: "SingletonJob", Name: "some", UID: "some", Controller: ptr.To(true)},
			{APIVersion: "v1", Kind: "ConfigMap", Name: "theirs", UID: "theirs"},
		}
	case formerPod:
		start.Holder = w.holder.Name + "_0b1a7c1e-9a1c-4f6e-8a39-6d2f6f1f0002"
	}
	repair := w.client(breakGlass)
	if err := repair.Create(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	for _, step := range w.stepsTo(to, &start) {
		next, err := step(lease.Observation{Lease: l})
		if err != nil {
			t.Fatal(err)
		}
		if err := repair.Update(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		l = next
		if token, err := lease.Parse(l); err == nil {
			start.Token = token.Token
		}
	}
	return l, start
}

func holderOf(pod *corev1.Pod) string { return pod.Name + "_" + string(pod.UID) }

type leaseStep func(lease.Observation) (*coordinationv1.Lease, error)

func (w *world) stepsTo(to state, start *lease.Start) []leaseStep {
	open := func(o lease.Observation) (*coordinationv1.Lease, error) { return o.SetClosed("") }
	grant := func(o lease.Observation) (*coordinationv1.Lease, error) {
		return o.Grant(start.Holder, "issuer", lease.Basis{}, time.Now())
	}
	confirm := func(o lease.Observation) (*coordinationv1.Lease, error) { return o.Confirm(*start, time.Now()) }
	toLive := []leaseStep{open, grant, confirm}
	switch to {
	case free:
		return toLive[:1]
	case granted:
		return toLive[:2]
	case live, liveJob, formerPod, ofAJob:
		return toLive
	case suspended:
		return append(toLive, func(o lease.Observation) (*coordinationv1.Lease, error) {
			return o.SetClosed(v1alpha1.ClosedSuspended)
		})
	case released:
		return append(toLive, func(o lease.Observation) (*coordinationv1.Lease, error) {
			return o.Release(*start, v1alpha1.OutcomeStopped)
		})
	case endAsked:
		return append(toLive, lease.Observation.RequestEnd)
	case seized, wiped:
		return append(toLive, func(o lease.Observation) (*coordinationv1.Lease, error) {
			l := o.Lease.DeepCopy()
			var taken string
			if to == seized {
				taken = "foreign"
				*l.Spec.LeaseTransitions++
			}
			l.Spec.HolderIdentity = &taken
			return l, nil
		})
	}
	return nil
}
