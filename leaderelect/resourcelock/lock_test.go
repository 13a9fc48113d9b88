// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcelock

import (
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/fencing"
	"leasehold.dev/leaderelect/lease"
)

func TestAcquire(t *testing.T) {
	b := newBench(t)
	l := b.lock("a", fresh)
	b.claimsNothing(l)
	claim := b.takes(l)
	r := b.record()
	if want := (fencing.Claim{Issuer: issuer, Token: r.Token, Holder: "a"}); claim != want {
		t.Errorf("the claim is %v, want %v", claim, want)
	}
	if r.Phase() != lease.Live || r.Holder != "a" || r.Duration != duration {
		t.Errorf("the Lease is %s of %q for %s", r.Phase(), r.Holder, r.Duration)
	}
	if b.lease().Labels[v1alpha1.LabelCompeting] != "true" {
		t.Errorf("labels %v", b.lease().Labels)
	}
	b.waits(b.lock("b"))
}

// TestLeaseThatNobodyIsKnownToHaveHeld: it may be the successor of one that was
// deleted while held. LeaseLock takes it at once.
func TestLeaseThatNobodyIsKnownToHaveHeld(t *testing.T) {
	b := newBench(t)
	b.takesAfter(b.lock("a"), duration)
	b.delete()
	if err := b.plain("c").Create(t.Context(), wish("c")); err != nil {
		t.Errorf("LeaseLock: %v, want it to be taken at once beside a", err)
	}
}

func TestTrustEndsUnlessRenewed(t *testing.T) {
	b := newBench(t)
	l := b.lock("a", fresh)
	claim := b.takes(l)
	for range 3 {
		b.clock.Advance(trust - time.Millisecond)
		if again, err := l.Claim(); err != nil || again != claim {
			t.Errorf("%v, %v before the trust ends, want %v", again, err, claim)
		}
		before := b.record().RenewTime
		b.must(b.renew(l))
		if !b.record().RenewTime.After(before) {
			t.Error("renewTime did not move")
		}
	}
	b.clock.Advance(trust)
	b.claimsNothing(l)
	b.must(b.renew(l)) // Late, but nobody else has taken it: the same term.
	if again, err := l.Claim(); err != nil || again != claim {
		t.Errorf("%v, %v after a late renewal, want %v", again, err, claim)
	}
	b.clock.Move(0, trust) // The machine was paused: only the wall clock shows it.
	b.claimsNothing(l)
}

// TestTrustCountsFromTheRequest, not from its reply: others may have seen the
// renewal when it was sent.
func TestTrustCountsFromTheRequest(t *testing.T) {
	b := newBench(t)
	const late = 5 * time.Second
	l := b.lock("a", fresh, through(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if r.Method == http.MethodPut {
			b.clock.Advance(late)
		}
		return response, err
	}))
	b.takes(l)
	b.clock.Advance(trust - late - time.Millisecond)
	if _, err := l.Claim(); err != nil {
		t.Error(err)
	}
	b.clock.Advance(time.Millisecond)
	b.claimsNothing(l)
}

func TestRelease(t *testing.T) {
	b := newBench(t)
	first, second := b.lock("a", fresh), b.lock("b")
	claim := b.takes(first)
	b.waits(second)
	b.must(b.release(first))
	b.claimsNothing(first)
	if r := b.record(); r.Phase() != lease.Free || r.Released != claim.Token || r.Outcome != v1alpha1.OutcomeStopped {
		t.Errorf("the Lease is %s, released %d (%s)", r.Phase(), r.Released, r.Outcome)
	}
	b.rises(claim, b.takes(second))
	b.waits(first)
}

func TestLapse(t *testing.T) {
	b := newBench(t)
	first, second := b.lock("a", fresh), b.lock("b")
	claim := b.takes(first)
	b.rises(claim, b.takesAfter(second, duration))
	b.claimsNothing(first)
	if err := b.renew(first); !apierrors.IsConflict(err) {
		t.Errorf("a renewal by whoever lost it: %v", err)
	}
	b.waits(first)
	if _, err := first.Claim(); err != nil {
		wantText(t, err, "names token")
	}
}

// TestLateReleaseLeavesTheSuccessor: an elector that gave up late, and remembers
// that it leads, releases. With LeaseLock that empties its successor's record.
func TestLateReleaseLeavesTheSuccessor(t *testing.T) {
	b := newBench(t)
	first, second := b.lock("a", fresh), b.lock("b")
	b.takes(first)
	claim := b.takesAfter(second, duration)
	if err := b.release(first); err == nil {
		t.Error("a release of another's term is reported as done")
	}
	if r := b.record(); r.Holder != "b" || !r.Open() {
		t.Errorf("the holder is %q", r.Holder)
	}
	b.must(b.renew(second))
	if again, err := second.Claim(); err != nil || again != claim {
		t.Errorf("the successor claims %v, %v", again, err)
	}

	b.must(b.release(b.plain("a")))
	if r := b.record(); r.Holder != "" {
		t.Errorf("LeaseLock left the holder %q: the control finds nothing", r.Holder)
	}
	b.must(b.try(b.plain("c"))) // And the next LeaseLock starts beside b.
}

// TestOneTermForEachTimeAsLeader: an elector that lost its term, and has not
// noticed when the Lease is free again, must not go on in another term. With
// LeaseLock it does.
func TestOneTermForEachTimeAsLeader(t *testing.T) {
	b := newBench(t)
	first, second := b.lock("a", fresh), b.lock("b")
	claim := b.takes(first)
	b.takesAfter(second, duration)
	b.waits(first) // It sees the other.
	b.must(b.release(second))
	b.waits(first)
	if err := b.renew(first); err == nil {
		t.Error("it went on in another term")
	}
	first.RecordEvent(stoppedLeading)
	b.rises(claim, b.takes(first))

	b.must(b.release(first))
	work := b.plain("p")
	b.must(b.try(work))
	other := b.plain("q")
	_, _, err := other.Get(t.Context())
	b.must(err)
	b.must(other.Update(t.Context(), wish("q"))) // After a lapse, as its own clock says.
	b.must(b.release(other))
	b.must(b.try(work)) // Its elector never knew.
}

// TestConflictIsNoLoss: somebody edits the Lease.
func TestConflictIsNoLoss(t *testing.T) {
	b := newBench(t)
	l := b.lock("a", fresh)
	claim := b.takes(l)
	b.edit(func(x *leaseObject) { x.Labels["team"] = "payments" })
	if err := b.renew(l); !apierrors.IsConflict(err) {
		t.Errorf("a renewal from an old view: %v", err)
	}
	if _, err := l.Claim(); err != nil {
		t.Errorf("a conflict is taken for a loss: %v", err)
	}
	if again := b.takes(l); again != claim {
		t.Errorf("the claim is %v, was %v", again, claim)
	}
	if b.lease().Labels["team"] != "payments" {
		t.Error("the edit is undone")
	}
	b.edit(func(x *leaseObject) { x.Labels["team"] = "orders" })
	if err := l.Update(t.Context(), wish("")); !apierrors.IsConflict(err) {
		t.Errorf("a release from an old view: %v, want a conflict, which an elector retries", err)
	}
	b.must(b.release(l))
	if r := b.record(); r.Phase() != lease.Free {
		t.Errorf("the Lease is %s", r.Phase())
	}
}

func TestDeletedLease(t *testing.T) {
	b := newBench(t)
	l, second := b.lock("a", fresh), b.lock("b", fresh)
	claim := b.takes(l)
	b.delete()
	if err := b.renew(l); err == nil {
		t.Error("a renewal made the Lease anew")
	}
	b.waits(l)
	wantText(t, b.renew(l), "is gone")
	if r := b.record(); r.Token != claim.Token || !r.Open() {
		t.Errorf("the Lease that was made for it shows token %d, released %d", r.Token, r.Released)
	}
	next := b.takesAfter(second, duration) // Although it was told that the Lease was fresh.
	b.rises(claim, next)
	l.RecordEvent(stoppedLeading)
	b.must(b.release(second))
	b.rises(next, b.takes(l))
}

// TestLostReplies: what was sent may have been committed.
func TestLostReplies(t *testing.T) {
	b := newBench(t)
	net := &loseReplies{}
	l := b.lock("a", fresh, through(net.pass))
	net.next(1)
	if err := b.try(l); err == nil {
		t.Fatal("the reply was not lost")
	}
	b.claimsNothing(l)
	if r := b.record(); r.Phase() != lease.Live {
		t.Fatalf("the Lease is %s: nothing was committed", r.Phase())
	}
	claim := b.takes(l) // It recognises its nonce.
	if r := b.record(); r.Token != claim.Token || r.Transitions != 1 {
		t.Errorf("the claim is %v, the Lease has token %d in term %d", claim, r.Token, r.Transitions)
	}
	net.next(1)
	if err := b.renew(l); err == nil {
		t.Fatal("the reply was not lost")
	}
	if again := b.takes(l); again != claim {
		t.Errorf("the claim is %v, was %v", again, claim)
	}
	net.next(1)
	if err := b.release(l); err == nil {
		t.Fatal("the reply was not lost")
	}
	b.claimsNothing(l)
	b.rises(claim, b.takes(b.lock("b")))
}

// TestTermLostBeforeItLed: the reply to the acquisition was lost, and the term
// with it, before the elector knew. It has not led and never says that it has
// stopped; it must get the next term all the same.
func TestTermLostBeforeItLed(t *testing.T) {
	b := newBench(t)
	net := &loseReplies{}
	l, second := b.lock("a", fresh, through(net.pass)), b.lock("b")
	net.next(1)
	if err := b.try(l); err == nil {
		t.Fatal("the reply was not lost")
	}
	_, _, err := l.Get(t.Context()) // The term is found.
	b.must(err)
	claim := b.takesAfter(second, duration)
	b.waits(l)
	b.must(b.release(second))
	b.rises(claim, b.takes(l))
}

// TestTokensRise over every way in which a term ends.
func TestTokensRise(t *testing.T) {
	b := newBench(t)
	last := fencing.Claim{}
	for i, end := range []func(*Lock){
		func(l *Lock) { b.must(b.release(l)) },
		func(*Lock) { b.delete() },
		func(*Lock) { b.edit(func(x *leaseObject) { x.Spec.HolderIdentity = new(string) }) },
		func(*Lock) {},
		func(*Lock) { b.must(b.release(b.plain("a"))) },
		func(l *Lock) { b.must(b.release(l)) },
		func(*Lock) {
			thief := "thief"
			b.edit(func(x *leaseObject) { x.Spec.HolderIdentity = &thief })
		},
		func(*Lock) {},
	} {
		l := b.lock("a") // A process with the same name each time, such as a pod of a StatefulSet.
		if b.try(l) != nil {
			b.clock.Advance(duration)
		}
		claim := b.takes(l)
		b.rises(last, claim)
		if r := b.record(); r.Token != claim.Token {
			t.Errorf("%d: the Lease has token %d, the claim is %v", i, r.Token, claim)
		}
		last = claim
		end(l)
	}
}
