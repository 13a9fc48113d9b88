// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"strconv"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/internal/holder/clock"
	"leasehold.dev/internal/holder/core"
	"leasehold.dev/leaderelect/lease"
)

var competing = lease.Timing{Duration: 15 * time.Second, RenewInterval: 5 * time.Second}

func rival(name string) lease.Rival {
	return lease.Rival{Holder: name, Nonce: "nonce.of-1." + name, Issuer: issuer, Timing: competing}
}

// newContest has no Lease yet, and a machine that takes one itself.
func newContest(t *testing.T, change ...func(*core.Config)) *world {
	w := &world{t: t, version: 1000, now: clock.Instant{Elapsed: time.Hour, Wall: 1e6 * time.Hour}}
	c := core.Config{Holder: me, Origin: origin(), StopGrace: 20 * time.Second, ReleaseTimeout: 30 * time.Second,
		Compete: &core.Compete{Namespace: "ns", Name: "lease", Issuer: issuer, Timing: competing}, Loop: true,
		Jitter: func() float64 { return 1 },
		Random: func() string { w.nonces++; return "r" + strconv.Itoa(w.nonces) }}
	for _, f := range change {
		f(&c)
	}
	w.m = core.New(c)
	return w
}

// freed is a contest for a Lease that another has released.
func freed(t *testing.T, change ...func(*core.Config)) *world {
	t.Helper()
	w := newContest(t, change...)
	w.put()
	w.rivalTakes()
	w.rivalReleases()
	w.list()
	return w
}

// put stores a competing Lease that was never granted.
func (w *world) put() {
	l := lease.NewCompeting(metav1.ObjectMeta{Name: "lease", UID: "lease-uid"}, rival(other), lease.Carry{})
	w.write(l)
}

// rivalTakes lets another take the Lease, which manage lets age by an hour.
func (w *world) rivalTakes() {
	w.t.Helper()
	w.manage(func(o lease.Observation) (*coordinationv1.Lease, error) { return o.Take(rival(other), w.now.Time()) })
}

func (w *world) rivalReleases() {
	w.t.Helper()
	w.manage(func(o lease.Observation) (*coordinationv1.Lease, error) {
		r, err := lease.Parse(o.Lease)
		if err != nil {
			return nil, err
		}
		return o.Release(lease.Start{Holder: other, Token: r.Token, Nonce: rival(other).Nonce}, v1alpha1.OutcomeStopped)
	})
}

func (w *world) idle() {
	w.t.Helper()
	if w.request != nil {
		w.t.Fatalf("%s is under way; said %q", w.request.Kind, w.said)
	}
}

// works brings a contest to running work.
func (w *world) works() int64 {
	w.t.Helper()
	w.answer(core.Take)
	w.step(core.Started{})
	if !w.running {
		w.t.Fatalf("the work does not run; said %q", w.said)
	}
	return w.record().Token
}

func TestTakesAFreeLeaseAtOnceAndReleasesIt(t *testing.T) {
	t.Parallel()
	w := freed(t)
	token := w.works()
	w.wantWork(token)
	if w.started[0].Issuer != issuer || w.started[0].Holder != me || len(w.announce) != 1 {
		t.Errorf("claim %+v, announced %q", w.started[0], w.announce)
	}
	w.advance(5 * time.Second)
	w.answer(core.Renew)
	w.end(0)
	w.answer(core.Release)
	w.wantReleased(token, v1alpha1.OutcomeSucceeded)
	w.wantExit(0)
}

func TestNoLease(t *testing.T) {
	t.Parallel()
	for name, fresh := range map[string]bool{"vouched for": true, "waits": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newContest(t, func(c *core.Config) { c.Compete.Fresh = fresh })
			w.step(core.Seen{Live: true, Asked: w.now})
			w.answer(core.Create)
			if !fresh {
				w.idle()
				w.advance(15*time.Second - 1)
				w.idle()
				w.advance(1)
			}
			w.wantWork(w.works())
		})
	}
}

func TestAnotherCreatesTheLeaseFirst(t *testing.T) {
	t.Parallel()
	w := newContest(t)
	w.step(core.Seen{Live: true, Asked: w.now})
	w.put()
	w.rivalTakes()
	w.answer(core.Create)
	w.answer(core.Read)
	w.idle()
	w.advance(15 * time.Second)
	w.answer(core.Take)
	if r := w.record(); r.GrantHolder != me || r.Outcome != v1alpha1.OutcomeLapsed {
		t.Errorf("%+v", r)
	}
}

func TestWaitsForTheLapseOnItsOwnClock(t *testing.T) {
	t.Parallel()
	w := newContest(t)
	w.put()
	w.rivalTakes()
	w.list()
	for range 3 {
		w.advance(14 * time.Second)
		w.manage(func(o lease.Observation) (*coordinationv1.Lease, error) {
			return o.Renew(lease.Start{Holder: other, Token: w.record().Token, Nonce: rival(other).Nonce}, w.now.Time())
		})
		w.watch()
	}
	w.advance(10 * time.Second)
	w.now.Wall += time.Hour // Somebody sets the wall clock.
	w.step(core.Tick{})
	w.idle()
	w.edit(func(l *coordinationv1.Lease) { l.Labels["touched"] = "yes" })
	w.watch()
	w.advance(5*time.Second - 1)
	w.idle()
	w.advance(1)
	w.wantWork(w.works())
}

// TestFollowersNeverPoll: between changes of the Lease a follower asks nothing,
// however long that is; and when it is late it is the first to know.
func TestFollowersNeverPoll(t *testing.T) {
	t.Parallel()
	w := newContest(t)
	w.put()
	w.rivalTakes()
	w.list()
	for range 1000 {
		w.advance(5 * time.Second)
		w.idle()
		w.manage(func(o lease.Observation) (*coordinationv1.Lease, error) {
			return o.Renew(lease.Start{Holder: other, Token: w.record().Token, Nonce: rival(other).Nonce}, w.now.Time())
		})
		w.watch()
		w.idle()
	}
}

func TestTakeWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	for name, applied := range map[string]bool{"applied": true, "not applied": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := freed(t)
			w.drop(core.Take, applied)
			if len(w.started) > 0 {
				t.Fatal("works without a reply")
			}
			w.advance(time.Second)
			w.answer(core.Read)
			if applied {
				w.answer(core.Confirm) // Trust counts from a request that is known to have succeeded.
			} else {
				w.answer(core.Take)
			}
			w.step(core.Started{})
			w.wantWork(w.record().Token)
		})
	}
}

func TestTakeSeenByWatchBeforeItsReply(t *testing.T) {
	t.Parallel()
	w := freed(t)
	reply := w.apply()
	w.watch()
	if len(w.started) > 0 {
		t.Fatal("works without a reply")
	}
	w.request = nil
	w.step(reply)
	w.step(core.Started{})
	w.wantWork(w.record().Token)
}

func TestTakeLostToAnother(t *testing.T) {
	t.Parallel()
	w := freed(t)
	w.rivalTakes()
	w.answer(core.Take)
	w.answer(core.Read)
	w.idle()
	if len(w.started) > 0 {
		t.Fatal("works on another's term")
	}
}

func TestToldToStopWhileATakeIsUnderWay(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]func(w *world){
		"it succeeds": func(w *world) {
			w.answer(core.Take)
			w.answer(core.Release)
		},
		"its reply is lost": func(w *world) {
			w.drop(core.Take, true)
			w.advance(time.Second)
			w.answer(core.Read)
			w.answer(core.Release)
		},
		"it fails": func(w *world) {
			w.rivalTakes()
			w.answer(core.Take)
		},
		"nothing is ever known": func(w *world) {
			for range 20 {
				if w.exited == nil && w.request != nil {
					w.drop(w.request.Kind, false)
					w.advance(5 * time.Second)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := freed(t)
			w.step(core.Signal{Number: syscall.SIGTERM})
			if w.exited != nil {
				t.Fatal("leaves, and the Lease may be taken")
			}
			tc(w)
			w.wantExit(143)
			w.wantWork()
			if r := w.record(); r.Open() && r.GrantHolder == me {
				t.Errorf("left a term behind: %+v", r)
			}
		})
	}
}

func TestLoopsAfterALostTerm(t *testing.T) {
	t.Parallel()
	w := freed(t)
	first := w.works()
	w.edit(func(l *coordinationv1.Lease) {
		thief := "thief"
		l.Spec.HolderIdentity = &thief
		*l.Spec.LeaseTransitions++
	})
	w.watch()
	w.wantForwards(syscall.SIGTERM)
	w.end(1)
	w.answer(core.Release) // Says that its own term is over, and leaves the thief alone.
	if r := w.record(); r.Holder != "thief" || r.Released != first {
		t.Errorf("%+v", r)
	}
	w.idle()
	w.advance(15 * time.Second)
	second := w.works()
	if second <= first {
		t.Errorf("token %d after %d", second, first)
	}
	w.wantWork(first, second)
}

func TestHandsOverWhenAskedTo(t *testing.T) {
	t.Parallel()
	w := freed(t)
	first := w.works()
	w.edit(func(l *coordinationv1.Lease) {
		l.Annotations[v1alpha1.AnnotationEndRequested] = strconv.FormatInt(first, 10)
	})
	w.watch()
	w.wantForwards(syscall.SIGTERM)
	w.end(0)
	w.answer(core.Release)
	w.advance(4 * time.Second)
	w.idle() // Others go first.
	w.advance(time.Second)
	w.wantWork(first, w.works())
}

func TestLeaseDeletedUnderACompetitor(t *testing.T) {
	t.Parallel()
	w := freed(t)
	first := w.works()
	w.version++
	w.lease = nil
	w.step(core.Seen{Version: strconv.FormatInt(w.version, 10)})
	w.wantForwards(syscall.SIGTERM)
	w.end(1)
	w.answer(core.Create)
	if r := w.record(); r.Token != first || r.Phase() != lease.Disputed || r.Transitions != 2 {
		t.Errorf("what it knows of the deleted Lease is not on the new one: %+v", r)
	}
	w.idle()
	w.advance(15 * time.Second)
	w.wantWork(first, w.works())
}

func TestSuccessNeedsNoReportWhereNobodyWouldRunItAgain(t *testing.T) {
	t.Parallel()
	w := freed(t)
	w.works()
	w.end(0)
	for w.exited == nil {
		w.drop(w.request.Kind, false)
		w.advance(5 * time.Second)
	}
	w.wantExit(0)
}

func TestDoesNotTouchAManagedLease(t *testing.T) {
	t.Parallel()
	w := newContest(t)
	l := lease.New(metav1.ObjectMeta{Name: "lease", UID: "lease-uid"}, config(), lease.Carry{})
	delete(l.Annotations, v1alpha1.AnnotationClosed)
	w.write(l)
	w.list()
	w.advance(time.Hour)
	w.idle()
}

func TestRestoredStoreIsWaitedForAnew(t *testing.T) {
	t.Parallel()
	w := newContest(t)
	w.put()
	w.rivalTakes()
	w.list()
	w.advance(14 * time.Second)
	w.version = 500
	w.write(w.lease)
	w.now = w.now.Add(time.Millisecond)
	w.list()
	w.advance(14 * time.Second)
	w.idle()
	w.advance(time.Second)
	w.under(core.Take)
}

func TestSectionsGoOutWithTheNextRenewal(t *testing.T) {
	t.Parallel()
	w := freed(t)
	w.works()
	w.step(core.Measured{P99: 1500 * time.Millisecond})
	w.idle() // No write of its own.
	w.advance(5 * time.Second)
	w.answer(core.Renew)
	if got := w.lease.Annotations[v1alpha1.AnnotationSectionP99]; got != "1500" {
		t.Errorf("section-p99 %q", got)
	}
}
