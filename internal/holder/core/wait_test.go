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

func TestTakesUpAGrant(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.list()
	if w.request != nil || len(w.announce) != 0 {
		t.Fatal("asks for something without a grant")
	}
	token := w.grant(me)
	w.watch()
	w.under(core.Confirm)
	if len(w.announce) != 1 {
		t.Fatal("the termination message was not written before Confirm")
	}
	if len(w.started) != 0 {
		t.Fatal("work started before the reply to Confirm")
	}
	w.answer(core.Confirm)
	w.wantWork(token)
	if c := w.started[0]; c.Holder != me || c.Issuer != issuer {
		t.Errorf("claim %+v", c)
	}
	if got := w.record().Started; got != w.announce[0] {
		t.Errorf("confirmed by %q, announced %q", got, w.announce[0])
	}
	if w.guard != w.sentAt.Add(11500*time.Millisecond) {
		t.Errorf("guard at %v", w.guard)
	}
}

func TestConfirmWithoutReply(t *testing.T) {
	t.Parallel()
	for name, applied := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, config())
			token := w.grant(me)
			w.list()
			w.drop(core.Confirm, applied)
			w.advance(time.Second)
			w.answer(core.Read)
			w.wantWork()
			w.answer(core.Confirm)
			w.wantWork(token)
			if w.guard != w.sentAt.Add(11500*time.Millisecond) {
				t.Errorf("trust does not count from the start of the Confirm whose reply is known")
			}
		})
	}
}

func TestLateReplyToConfirmIsRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	token := w.grant(me)
	w.list()
	w.advance(10 * time.Second)
	w.answer(core.Confirm)
	w.wantWork()
	w.answer(core.Confirm)
	w.wantWork(token)
}

func TestWithdrawnGrantStartsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.grant(me)
	w.list()
	w.manage(lease.Observation.Withdraw)
	w.answer(core.Confirm)
	w.answer(core.Read)
	w.wantWork()
	if w.request != nil || w.exited != nil {
		t.Error("does not wait")
	}
	token := w.grant(me)
	w.watch()
	w.answer(core.Confirm)
	w.wantWork(token)
}

func TestGrantThatCannotBeTrustedIsNotTaken(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(l *coordinationv1.Lease){
		"unmanaged":    func(l *coordinationv1.Lease) { delete(l.Labels, v1alpha1.LabelManaged) },
		"unreadable":   func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.AnnotationToken] = "x" },
		"too short":    func(l *coordinationv1.Lease) { *l.Spec.LeaseDurationSeconds = 1 },
		"seized":       func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "thief" },
		"retold later": func(l *coordinationv1.Lease) { *l.Spec.LeaseTransitions++ },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, config())
			w.grant(me)
			w.edit(spoil)
			w.list()
			w.advance(time.Minute)
			if w.request != nil {
				t.Errorf("sends %s", w.request.Kind)
			}
			if len(w.announce) != 0 {
				t.Error("takes it up")
			}
		})
	}
}

func TestSignalWhileWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.list()
	w.step(core.Signal{Number: syscall.SIGUSR1})
	if w.exited != nil {
		t.Fatal("USR1 ends a waiting agent")
	}
	w.step(core.Signal{Number: syscall.SIGTERM})
	w.wantExit(143)
}

func TestSignalBeforeAnythingIsKnown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.step(core.Tick{})
	w.step(core.Signal{Number: syscall.SIGINT})
	w.wantExit(130)
}

func TestSignalBetweenConfirmAndStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	token := w.grant(me)
	w.list()
	w.step(core.Signal{Number: syscall.SIGTERM})
	if w.exited != nil {
		t.Fatal("exit without a release")
	}
	w.answer(core.Confirm)
	w.wantWork()
	w.answer(core.Release)
	w.wantExit(143)
	w.wantReleased(token, v1alpha1.OutcomeStopped)
}

func TestSignalWhileGrantedAndTheAPIIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.grant(me)
	w.list()
	w.step(core.Signal{Number: syscall.SIGTERM})
	w.drop(core.Confirm, false)
	for range 100 {
		w.advance(time.Second)
		if w.exited != nil {
			break
		}
		if w.request != nil {
			w.drop(core.Read, false)
		}
	}
	w.wantExit(143)
	w.wantWork()
}

func TestCompletedLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.manage(func(o lease.Observation) (*coordinationv1.Lease, error) { return o.SetClosed(v1alpha1.ClosedCompleted) })
	w.list()
	w.wantExit(0)
}

func TestSuspendedLeaseIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.manage(func(o lease.Observation) (*coordinationv1.Lease, error) { return o.SetClosed(v1alpha1.ClosedSuspended) })
	w.list()
	if w.exited != nil {
		t.Error("exit")
	}
}

// earlier leaves a term that was confirmed by another start under our name.
func earlier(w *world, nonce string) int64 {
	token := w.grant(me)
	w.manage(func(o lease.Observation) (*coordinationv1.Lease, error) {
		return o.Confirm(lease.Start{Holder: me, Token: token, Nonce: nonce}, w.now.Time())
	})
	return token
}

func TestRestartedInPlaceEndsTheEarlierTerm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	nonce := origin()
	nonce.Ticks, nonce.Random = 99, "before"
	token := earlier(w, nonce.String())
	w.list()
	w.drop(core.Outlived, true)
	w.advance(5 * time.Second)
	w.answer(core.Read)
	w.wantReleased(token, v1alpha1.OutcomeRestarted)
	w.wantWork()
	next := w.grant(me)
	w.watch()
	w.answer(core.Confirm)
	w.wantWork(next)
}

func TestAnotherStartIsRespected(t *testing.T) {
	t.Parallel()
	beside, elsewhere := origin(), origin()
	beside.Random, elsewhere.Random = "beside", "elsewhere"
	elsewhere.Container, elsewhere.Ticks = "second", 1
	for name, nonce := range map[string]string{"beside": beside.String(), "other container": elsewhere.String(), "kubelet": "uid"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, config())
			earlier(w, nonce)
			w.list()
			if w.request != nil {
				t.Errorf("sends %s", w.request.Kind)
			}
			w.wantWork()
		})
	}
}
