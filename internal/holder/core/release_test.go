// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/internal/holder/core"
	"leasehold.dev/leaderelect/lease"
)

func TestReleaseCarriesTheOutcome(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		code    int
		outcome v1alpha1.Outcome
		closed  v1alpha1.Closed
	}{
		"success": {0, v1alpha1.OutcomeSucceeded, v1alpha1.ClosedCompleted},
		"failure": {3, v1alpha1.OutcomeFailed, ""},
		"signal":  {139, v1alpha1.OutcomeFailed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config()
			c.CloseOnSuccess = true
			w := newWorld(t, c)
			token := w.work()
			w.end(tt.code)
			if w.exited != nil {
				t.Fatal("exit before the release is known")
			}
			w.answer(core.Release)
			w.wantExit(tt.code)
			w.wantReleased(token, tt.outcome)
			if got := w.record().Closed; got != tt.closed {
				t.Errorf("closed %q, want %q", got, tt.closed)
			}
		})
	}
}

func TestReleaseWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	for name, applied := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, config())
			token := w.work()
			w.end(0)
			w.drop(core.Release, applied)
			w.advance(5 * time.Second)
			w.answer(core.Read)
			if !applied {
				w.answer(core.Release)
			}
			w.wantExit(0)
			w.wantReleased(token, v1alpha1.OutcomeSucceeded)
		})
	}
}

func TestReleaseKnownFromTheNextGrant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.work()
	w.end(0)
	w.apply()
	w.grant(other)
	w.watch()
	w.wantExit(0)
}

func TestSuccessWaitsForTheAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.work()
	w.end(0)
	refuse(w, time.Hour, core.Unknown)
	if w.exited != nil {
		t.Fatal("the success was thrown away")
	}
	w.step(core.Signal{Number: syscall.SIGTERM})
	refuse(w, 29*time.Second, core.Unknown)
	if w.exited != nil {
		t.Fatal("gave up too early")
	}
	refuse(w, 2*time.Second, core.Unknown)
	w.wantExit(core.CodeNoAPI)
}

func TestFailureIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.work()
	w.end(3)
	refuse(w, 31*time.Second, core.Unknown)
	w.wantExit(3)
}

func TestSuccessThatCannotBeRecordedIsNone(t *testing.T) {
	t.Parallel()
	for name, steal := range map[string]func(w *world){
		"granted on": func(w *world) { w.grant(other) },
		"lapsed": func(w *world) {
			w.manage(func(o lease.Observation) (*coordinationv1.Lease, error) {
				return o.End(lease.Basis{Kind: lease.ByLapse})
			})
		},
		"other nonce": func(w *world) {
			w.edit(func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.AnnotationStarted] = "x" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, config())
			w.work()
			w.end(0)
			steal(w)
			w.answer(core.Release)
			w.answer(core.Read)
			w.wantExit(core.CodeLost)
		})
	}
}

func TestReleaseIsPermittedWhereSpecWasSeized(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	token := w.work()
	w.edit(func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "thief" })
	w.watch()
	w.end(0)
	w.answer(core.Release)
	w.wantExit(core.CodeLost)
	w.wantReleased(token, v1alpha1.OutcomeStopped)
	if *w.lease.Spec.HolderIdentity != "thief" {
		t.Error("wiped the holder that took the Lease")
	}
}

func TestSignalAfterAnEndRequestIsNoSuccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.work()
	w.manage(lease.Observation.RequestEnd)
	w.watch()
	w.end(0)
	w.step(core.Signal{Number: syscall.SIGTERM})
	w.answer(core.Release)
	w.wantExit(143)
}

func TestEndRequestIsReleasedHoweverLongItTakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	token := w.work()
	w.manage(lease.Observation.RequestEnd)
	w.watch()
	w.end(143)
	refuse(w, time.Hour, core.Unknown)
	if w.exited != nil {
		t.Fatal("a standby that was to go on has ended")
	}
	w.advance(10 * time.Second)
	w.answer(core.Read)
	w.answer(core.Release)
	w.wantReleased(token, v1alpha1.OutcomeStopped)
}
