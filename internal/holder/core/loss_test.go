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

// thefts are ways in which the Lease shows that the term is over.
var thefts = map[string]func(w *world){
	"granted on":    func(w *world) { w.grant(other) },
	"granted again": func(w *world) { w.grant(me) },
	"seized":        func(w *world) { w.edit(func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "thief" }) },
	"wiped":         func(w *world) { w.edit(func(l *coordinationv1.Lease) { *l.Spec.HolderIdentity = "" }) },
	"other nonce": func(w *world) {
		w.edit(func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.AnnotationStarted] = "x" })
	},
	"unconfirmed": func(w *world) {
		w.edit(func(l *coordinationv1.Lease) { delete(l.Annotations, v1alpha1.AnnotationStarted) })
	},
	"ended by death": func(w *world) {
		w.manage(func(o lease.Observation) (*coordinationv1.Lease, error) {
			r, _ := lease.Parse(o.Lease)
			return o.End(lease.Basis{Kind: lease.ByDeath, Holder: r.GrantHolder, Started: r.Started})
		})
	},
}

func TestLossSeenByWatchStopsTheWorkAtOnce(t *testing.T) {
	t.Parallel()
	for name, steal := range thefts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, config())
			w.work()
			steal(w)
			w.watch()
			w.wantForwards(syscall.SIGTERM)
			w.advance(1400 * time.Millisecond)
			w.wantKills(0)
			w.advance(100 * time.Millisecond)
			w.wantKills(1)
			if w.request != nil {
				t.Errorf("sends %s after the loss", w.request.Kind)
			}
		})
	}
}

func TestLossSeenByRefusedWrite(t *testing.T) {
	t.Parallel()
	for name, steal := range thefts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, config())
			w.work()
			w.advance(5 * time.Second)
			steal(w)
			w.answer(core.Renew)
			w.wantForwards()
			w.answer(core.Read)
			w.wantForwards(syscall.SIGTERM)
			w.end(0)
			for range 4 { // Only a term whose Lease still shows it can be released.
				w.advance(5 * time.Second)
				if w.request != nil {
					w.answer(w.request.Kind)
				}
			}
			w.wantExit(core.CodeLost)
		})
	}
}

func TestLossLateInTheTermIsBoundedByTheDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.work()
	w.advance(9900 * time.Millisecond)
	w.grant(other)
	w.watch()
	w.advance(1500 * time.Millisecond)
	w.wantKills(1)
}

func TestConflictAloneIsNoLoss(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.work()
	for range 3 {
		w.advance(5 * time.Second)
		w.edit(func(l *coordinationv1.Lease) { l.Labels["touched"] = w.now.Time().Format("150405") })
		w.answer(core.Renew)
		w.answer(core.Read)
		w.answer(core.Renew)
	}
	w.wantForwards()
}

func TestUnreadableLeaseIsInabilityToRenew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.work()
	w.edit(func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.AnnotationTakeUp] = "soon" })
	w.watch()
	for range 99 {
		w.advance(100 * time.Millisecond)
		if w.request != nil {
			w.answer(core.Read)
		}
	}
	w.wantForwards()
	w.advance(100 * time.Millisecond)
	w.wantForwards(syscall.SIGTERM)
}

func TestDeletedLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.work()
	w.step(core.Seen{Version: "1"}) // The deletion of an earlier Lease, late.
	w.wantForwards()
	w.step(core.Seen{Version: "1000000"})
	w.wantForwards(syscall.SIGTERM)
	w.end(0)
	w.wantExit(core.CodeLost)
}

func TestOlderWatchEventIsIgnored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.grant(me)
	old := w.lease.DeepCopy()
	w.list()
	w.answer(core.Confirm)
	w.step(core.Started{})
	w.step(core.Seen{Lease: old})
	w.wantForwards()
}

func TestOlderLiveReadIsARestoredStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.grant(me)
	asked := w.now
	old := w.lease.DeepCopy()
	w.list()
	w.advance(time.Millisecond)
	w.answer(core.Confirm)
	w.step(core.Started{})
	// Asked before the newer state was known: merely late.
	w.step(core.Seen{Lease: old, Live: true, Asked: asked})
	w.wantForwards()
	w.advance(time.Millisecond)
	w.step(core.Seen{Lease: old, Live: true, Asked: w.now})
	w.wantForwards(syscall.SIGTERM)
	w.end(0)
}

func TestRestoredGrantIsNotTakenTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	token := w.grant(me)
	old := w.lease.DeepCopy()
	w.list()
	w.answer(core.Confirm)
	w.step(core.Started{})
	w.manage(lease.Observation.RequestEnd)
	w.watch()
	w.end(0)
	w.answer(core.Release)
	w.lease = old
	w.advance(time.Millisecond)
	w.list()
	if w.request != nil {
		t.Errorf("sends %s", w.request.Kind)
	}
	w.wantWork(token)
}

func TestDeletionSeenByRefusedWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.work()
	w.advance(5 * time.Second)
	w.lease = nil
	w.answer(core.Renew)
	w.answer(core.Read)
	w.wantForwards(syscall.SIGTERM)
}

func TestAbsenceKnownBeforeTheLeaseIsOld(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	asked := w.now
	w.work()
	w.step(core.Seen{Live: true, Asked: asked})
	w.wantForwards()
	w.advance(time.Millisecond)
	w.step(core.Seen{Live: true, Asked: w.now})
	w.wantForwards(syscall.SIGTERM)
}

func TestReplyThatShowsNoChangeIsNoRenewal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.work()
	guard := w.guard
	w.advance(5 * time.Second)
	w.under(core.Renew)
	w.request = nil
	w.step(core.Reply{Lease: w.lease})
	if w.guard != guard {
		t.Error("counts as a renewal")
	}
}
