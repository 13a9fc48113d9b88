// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcelock

import (
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"leasehold.dev/fencing"
	"leasehold.dev/internal/holder/clock"
	"leasehold.dev/leaderelect/lease"
)

// What a lock knows. Callers hold mu.

// see takes in the newest state of the Lease.
func (l *Lock) see(got *coordinationv1.Lease) error {
	back := false
	if l.seen != nil {
		order, err := resourceversion.CompareResourceVersion(got.ResourceVersion, l.seen.ResourceVersion)
		back = err != nil || order < 0
	}
	record, err := lease.Parse(got)
	if err != nil {
		l.lose(err)
		return fmt.Errorf("resourcelock: Lease %s: %w", l.Describe(), err)
	}
	print := lease.Fingerprint(got) //nolint:revive // What it is.
	if back || print != l.print {
		l.changed = l.clock.Now()
	}
	if l.seen == nil || l.seen.UID != got.UID {
		l.longest = 0
	}
	l.seen, l.rec, l.print = got, record, print
	l.longest = max(l.longest, record.Duration)
	if back {
		l.lose(errors.New("the API server's store went back to an older state"))
		return nil
	}
	l.judge()
	return nil
}

// judge compares the Lease with this lock's term, or finds that an attempt whose
// reply was lost has succeeded. Trust in that one begins with its next renewal.
func (l *Lock) judge() {
	switch {
	case l.term != nil:
		if err := l.term.start.Check(l.rec); err != nil {
			l.lose(err)
		}
	case l.spent == nil && l.nonce != "":
		start := lease.Start{Holder: l.o.Identity, Token: l.rec.Token, Nonce: l.nonce}
		if start.Check(l.rec) == nil {
			l.term = &term{start: start, claim: fencing.Claim{Issuer: l.rec.Issuer, Token: l.rec.Token, Holder: l.o.Identity}}
		}
	}
}

// lose ends this lock's term, and what may become one. A term of which the
// elector was never told costs nothing: no work has started in it, and the
// elector, which has not stopped leading, would never say so.
func (l *Lock) lose(why error) {
	if l.term == nil && l.nonce == "" {
		return
	}
	if l.term != nil && l.term.led {
		l.spent = why
	}
	l.term, l.nonce = nil, ""
}

func (l *Lock) lost() error {
	if l.spent == nil {
		return lease.ErrEnded
	}
	return l.spent
}

func (l *Lock) observe(now clock.Instant) lease.Observation {
	return lease.Observation{Lease: l.seen, Age: now.Elapsed - l.changed.Elapsed}
}

func (l *Lock) rival() lease.Rival {
	return lease.Rival{Holder: l.o.Identity, Nonce: l.nonce, Issuer: l.issuer, Timing: l.timing,
		Fresh: l.o.Fresh, Longest: l.longest}
}

// carry is what is known of a Lease that is gone.
func (l *Lock) carry() lease.Carry {
	return lease.Carry{Token: l.rec.Token, Holder: l.rec.GrantHolder, Transitions: l.rec.Transitions, Longest: l.rec.Longest}
}

// record is the Lease as the elector is to see it: free if and only if it may be
// taken now. An elector takes one without a holder at once, and one with its own
// name for its own.
func (l *Lock) record() resourcelock.LeaderElectionRecord {
	record := *resourcelock.LeaseSpecToLeaderElectionRecord(&l.seen.Spec)
	if l.term != nil {
		return record
	}
	wait, err := l.observe(l.clock.Now()).TakeableIn(l.rival())
	if err == nil && wait == 0 && l.spent == nil {
		record.HolderIdentity = ""
		return record
	}
	switch record.HolderIdentity {
	case "":
		record.HolderIdentity = "nobody known to have released it"
	case l.o.Identity:
		record.HolderIdentity += " (an earlier term)"
	}
	record.LeaseDurationSeconds = max(record.LeaseDurationSeconds, int((wait+time.Second-1)/time.Second), 1)
	return record
}

// nonce names an attempt. It proves nothing about any other.
func nonce() string {
	return lease.Nonce{Container: "resourcelock", Boot: "unknown", Random: rand.Text()}.String()
}
