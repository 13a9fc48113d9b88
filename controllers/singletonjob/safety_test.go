// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package singletonjob

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// stale returns a client whose reads of jobs and pods answer as of now, for

// ever.

// staleView does so for jobs, and for pods if asked to.

// Two managers, each with caches as old as any that ever were: whatever they

// do, one pod is made for each ordinal, and none that stays beyond those wanted.

// A create from a view so stale that even its live look came before: the pod

// has no reserved ordinal, and goes.

// A manager that read the job before it completed finds no Lease, creates one,

// and must not open it.

// A manager that saw the reservation of an ordinal, and nothing since, must not

// make its pod once more after that has come and gone.

// A pod whose create arrived when its job was being deleted is not seen by a

// manager whose cache lags. The job must not go before it.

// The cache does not have the job yet: its pods are no orphans.

func TestMinTokenIsRecordedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const least = 1 << 40
	w.crash = func(write string, after bool) error {
		if after && write == "update Lease/work" {
			if floor, recorded := w.record().Config.TokenFloor, w.job().Status.TokenFloor; floor > recorded {
				t.Errorf("the lease permits tokens up to %d, on record is %d", floor, recorded)
			}
		}
		return nil
	}
	w.create(func(job *v1alpha1.SingletonJob) { job.Spec.Lease.MinToken = least })
	w.settle()
	if got := w.job().Status.TokenFloor; got != least+1000 {
		t.Errorf("floor is %d", got)
	}
	w.hold("work-0")
	if got := w.record().Token; got != least {
		t.Errorf("token is %d", got)
	}

	// The Lease is lost: the next token is above all that may have been granted.
	w.release(v1alpha1.OutcomeStopped)
	w.settle()
	w.loseLease()
	w.settle()
	w.hold("work-0")
	if got := w.record().Token; got <= least || got > w.job().Status.TokenFloor {
		t.Errorf("token is %d, floor %d", got, w.job().Status.TokenFloor)
	}
}

func TestDeletedLeaseIsMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	w.settle()
	w.hold("work-0")
	first := w.record().Token
	w.must(api.Delete(t.Context(), w.lease()))
	w.settle()
	w.wantCondition(v1alpha1.ConditionHeld, "True/Live") // Nobody stops the work for it.
	w.release(v1alpha1.OutcomeStopped)
	w.settle()
	w.wantHistory("work-0 Stopped")
	l, r := w.lease(), w.record()
	if l.DeletionTimestamp != nil || r.Closed != "" || r.Phase() != lease.Free || r.Token != first || r.Transitions != 1 {
		t.Errorf("new lease is %+v", r)
	}
	w.hold("work-0")
	if got := w.record(); got.Token <= first || got.Transitions != 2 || w.job().Status.Transitions != 2 {
		t.Errorf("next term is %+v", got)
	}
}

// The Lease is lost while its holder works: the term is carried over, and must

// end before anything is granted.

func TestLostLeaseCarriesTheTerm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	w.settle()
	w.hold("work-0")
	holder := w.record().GrantHolder
	w.loseLease()
	w.settle()
	r := w.record()
	if r.Phase() != lease.Disputed || r.GrantHolder != holder || r.Closed != "" {
		t.Errorf("new lease is %+v", r)
	}
	w.wantCondition(v1alpha1.ConditionHeld, "False/Disputed")
	w.wantPods("work-0")
	w.lapse()
	w.settle()
	w.wantHistory("work-0 Lapsed")
}

// The Lease is lost after its duration was shortened: the term that goes on was
// granted for longer, and that is how long the new Lease waits.

func TestLostLeaseWaitsForTheLongestTerm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(func(job *v1alpha1.SingletonJob) { job.Spec.Lease.DurationSeconds = 60 })
	w.settle()
	w.hold("work-0")
	w.edit(func(job *v1alpha1.SingletonJob) { job.Spec.Lease.DurationSeconds = 15 })
	w.settle()
	w.loseLease()
	w.settle()
	r := w.record()
	if r.Longest != time.Minute || r.Config.Duration != 15*time.Second {
		t.Errorf("the new Lease waits for %s with a duration of %s, want 1m0s and 15s", r.Longest, r.Config.Duration)
	}
}

// The same, but the status was never written: the pod's own token tells.

func TestLostLeaseCarriesTheTermFromThePod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	w.settle()
	w.grant("work-0")
	w.run("work-0")
	w.confirm()
	holder := w.record().GrantHolder
	w.loseLease()
	w.settle()
	if r := w.record(); r.Phase() != lease.Disputed || r.GrantHolder != holder {
		t.Errorf("new lease is %+v", r)
	}
}

func TestDeletionIsOrderly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	w.settle()
	w.hold("work-0")
	from := len(w.writes)
	w.must(api.Delete(t.Context(), w.job()))
	w.settle()
	w.wantPods("-work-0")
	if r := w.record(); r.Closed != v1alpha1.ClosedDeleting || !r.Open() {
		t.Errorf("lease is %+v", r)
	}
	w.reap("work-0") // Even a forced deletion waits for the term.
	w.settle()
	w.wantPods("-work-0")
	w.lapse()
	w.settle()
	w.wantPods()
	if w.exists(&v1alpha1.SingletonJob{}, w.name) || w.exists(&coordinationv1.Lease{}, w.name) {
		t.Error("job or lease is still there")
	}
	want := []string{"update Lease/work", "delete Pod/work-0", "delete Lease/work", "patch Pod/work-0", "update Lease/work", "patch SingletonJob/work"}
	got := slices.DeleteFunc(slices.Clone(w.writes[from:]), func(s string) bool { return strings.HasPrefix(s, "update status") })
	if !slices.Equal(got, want) {
		t.Errorf("writes were\n%s, want\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A pod whose finalizer goes must have ended on the live Lease, whatever the

// pod itself says.

func TestFinalizerWaitsForTheTerm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(toCompletion(corev1.RestartPolicyNever))
	w.settle()
	w.hold("work-0")
	w.end("work-0", 1)
	w.settle()
	pod := w.pod("work-0")
	if !slices.Contains(pod.Finalizers, v1alpha1.FinalizerOutcome) {
		t.Error("the finalizer is gone while the term is open")
	}
	w.wantPods("work-0")
	if got := w.job().Status.Failed; got != 0 {
		t.Errorf("failed %d times before the term has ended", got)
	}
}

func TestLapsedHolderIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	w.settle()
	w.hold("work-0")
	w.lapse()
	w.must(api.Delete(t.Context(), w.pod("work-0"))) // The grant controller's; the node is unreachable.
	w.settle()
	w.wantPods("-work-0", "work-1")
	w.wantHistory("work-0 Lapsed")
	if got := w.job().Status.ActiveOrdinals; !slices.Equal(got, []int32{1}) {
		t.Errorf("active ordinals are %v", got)
	}
}

// Somebody takes the job's finalizer away, and the garbage collector deletes

// what it left. The next job of the name waits for the open term, then goes on.

func TestNoJobIsNoError(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if result, err := w.reconcile(); err != nil || !result.IsZero() {
		t.Errorf("%v, %v", result, err)
	}
	if len(w.writes) != 0 {
		t.Error(fmt.Sprint(w.writes))
	}
}
