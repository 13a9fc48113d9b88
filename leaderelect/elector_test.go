// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderelect

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/fencing"
	"leasehold.dev/internal/holder/core"
	"leasehold.dev/leaderelect/lease"
)

var errWork = errors.New("the work failed")

func TestCompetes(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		a := w.start(me)
		term := a.term(1)
		wantValid(t, term, true)
		wantErr(t, term.Err(), nil)
		want := fencing.Claim{Issuer: issuer, Token: w.record().Token, Holder: me}
		if term.Claim() != want {
			t.Errorf("claim %v, want %v", term.Claim(), want)
		}
		if c, err := fencing.FromContext(a.ctx); err != nil || c != want {
			t.Errorf("the context carries %v, %v", c, err)
		}
		if got := term.Deadline().Sub(w.clock.Now().Time()); got != 12*time.Second {
			t.Errorf("deadline in %s", got)
		}
		w.pass(time.Minute)
		wantValid(t, term, true)
		a.returns(errWork)
		a.wantResult(errWork)
		wantValid(t, term, false)
		wantErr(t, term.Err(), ErrReturned)
		if r := w.record(); r.Open() || r.Outcome != v1alpha1.OutcomeFailed || r.Holder != "" {
			t.Errorf("%+v", r)
		}
	})
}

func TestWaitsToBeGranted(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.write(managed())
		a := w.start(me, func(o *Options) { o.Compete = nil })
		w.pass(time.Minute)
		a.term(0)
		w.grant(other)
		w.pass(time.Minute)
		a.term(0)
		w.step(lease.Observation.Withdraw)
		w.grant(me)
		wantValid(t, a.term(1), true)
		if got, want := a.term(1).Claim().Token, w.record().Token; got != want {
			t.Errorf("token %d, want %d", got, want)
		}
		a.returns(nil)
		a.wantResult(nil)
		if r := w.record(); r.Outcome != v1alpha1.OutcomeSucceeded {
			t.Errorf("%+v", r)
		}
	})
}

func managed() *coordinationv1.Lease {
	l := lease.New(metav1.ObjectMeta{Namespace: "ns", Name: "work", UID: "uid"}, lease.Config{
		Duration: 15 * time.Second, RenewInterval: 5 * time.Second, TakeUp: time.Hour, TokenFloor: lease.MaxToken,
		OverlapPolicy: v1alpha1.OverlapFence, RenewedBy: v1alpha1.RenewedByApplication}, lease.Carry{})
	delete(l.Annotations, v1alpha1.AnnotationClosed)
	return l
}

func (w *world) grant(holder string) {
	w.t.Helper()
	w.step(func(o lease.Observation) (*coordinationv1.Lease, error) {
		return o.Grant(holder, issuer, lease.Basis{Kind: lease.ByLapse}, w.clock.Now().Time())
	})
}

// TestReleasesAfterTheFunctionHasReturned: asked to stop, the function takes its
// time; the term is renewed meanwhile, and nobody else starts.
func TestReleasesAfterTheFunctionHasReturned(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		errDeploy := errors.New("a new version comes")
		draining := blocker(t)
		var mine *Term
		a := w.start(me)
		b := w.start(other)
		_ = a.term(1)
		a.returns(nil) // That function would return at once; take one that does not.
		a.wantResult(nil)
		b.term(1)
		b.returns(nil)

		ctx, cancel := context.WithCancelCause(t.Context())
		result := make(chan error, 1)
		go func() {
			result <- a.e.Run(ctx, func(ctx context.Context, term *Term) error {
				mine = term
				<-ctx.Done()
				wantErr(t, context.Cause(ctx), errDeploy)
				return <-draining
			})
		}()
		synctest.Wait()
		c := w.start("c")
		cancel(errDeploy)
		w.pass(29 * time.Second)
		c.term(0)
		wantValid(t, mine, true)
		wantErr(t, mine.Err(), errDeploy)
		draining <- nil
		synctest.Wait()
		wantErr(t, <-result, nil)
		wantValid(t, c.term(1), true)
		wantValid(t, mine, false)
	})
}

// blocker is a channel on which nobody waits longer than the test.
func blocker(t *testing.T) chan error {
	c := make(chan error)
	t.Cleanup(func() { close(c) })
	return c
}

func TestStoppedWhileWaiting(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.start(me), w.start(other)
		errStop := errors.New("enough")
		b.stop(errStop)
		b.wantResult(errStop)
		b.term(0)
		wantValid(t, a.term(1), true)
	})
}

func TestRunsOneAtATime(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		a := w.start(me)
		wantErr(t, a.e.Run(t.Context(), a.work), ErrRunning)
		a.returns(nil)
		a.wantResult(nil)
	})
}

// TestNeverLeadsWithoutTheAPI: also what would be a success elsewhere ("no
// election, so lead") is none.
func TestNeverLeadsWithoutTheAPI(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.fails(always(vanishes))
		a := w.start(me)
		w.pass(10 * time.Minute)
		a.term(0)
		w.fails(nil)
		w.pass(time.Minute)
		wantValid(t, a.term(1), true)
	})
}

// TestFollowersWatchAndNeverPoll: an hour of waiting costs not one request, and
// the release is acted on at once.
func TestFollowersWatchAndNeverPoll(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		a := w.start(me)
		b := w.start(other)
		before := w.asked()
		w.pass(time.Hour)
		after := w.asked()
		if polls := after[core.Read] - before[core.Read]; polls != 0 {
			t.Errorf("%d reads in an hour", polls)
		}
		if tries := after[core.Take] - before[core.Take]; tries != 0 {
			t.Errorf("%d attempts to take a lease that is held", tries)
		}
		if renewals := after[core.Renew] - before[core.Renew]; renewals < 700 || renewals > 730 {
			t.Errorf("%d renewals in an hour, want one in 5 s", renewals)
		}
		a.returns(nil)
		wantValid(t, b.term(1), true)
	})
}

func TestHandsOverWhenTheEndIsRequested(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		a := w.start(me)
		b := w.start(other)
		first := a.term(1)
		w.edit(func(l *coordinationv1.Lease) {
			l.Annotations[v1alpha1.AnnotationEndRequested] = l.Annotations[v1alpha1.AnnotationToken]
		})
		wantErr(t, first.Err(), ErrEndRequested)
		wantValid(t, first, false)
		wantValid(t, b.term(1), true)
		a.wantRunning()
		b.returns(nil)
		w.pass(5 * time.Second)
		wantValid(t, a.term(2), true)
		if first.Valid() || first.Claim().Token >= a.term(2).Claim().Token {
			t.Error("the first term lives on in the second")
		}
	})
}

func TestOneTerm(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		a := w.start(me, func(o *Options) { o.OneTerm = true })
		a.term(1)
		w.fails(always(vanishes))
		w.pass(time.Minute)
		a.wantResult(ErrLost)
	})
}

func TestUnreportedSuccess(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		w.write(managed())
		a := w.start(me, func(o *Options) { o.Compete = nil })
		w.grant(me)
		a.term(1)
		w.fails(always(vanishes))
		a.returns(nil)
		w.pass(time.Hour)
		a.wantRunning() // Whoever gives up has the work done again.
		a.stop(nil)
		w.pass(time.Minute)
		a.wantResult(ErrUnreported)
	})
}

func TestWorkThatIsDone(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		l := managed()
		l.Annotations[v1alpha1.AnnotationClosed] = string(v1alpha1.ClosedCompleted)
		w.write(l)
		a := w.start(me, func(o *Options) { o.Compete = nil })
		a.wantResult(nil)
		a.term(0)
	})
}

func TestOptions(t *testing.T) {
	t.Parallel()
	env := map[string]string{v1alpha1.EnvLeaseName: "l", v1alpha1.EnvLeaseNamespace: "n", v1alpha1.EnvPodName: "p", v1alpha1.EnvPodUID: "u"}
	none := map[string]string{}
	for name, tc := range map[string]struct {
		env    map[string]string
		change func(*Options)
		ok     bool
	}{
		"all from the environment":  {env, func(*Options) {}, true},
		"nothing is known":          {none, func(*Options) {}, false},
		"no pod":                    {none, func(o *Options) { o.Namespace, o.Name = "n", "l" }, false},
		"competing needs no pod":    {none, func(o *Options) { o.Namespace, o.Name, o.Compete = "n", "l", &Compete{} }, true},
		"no config":                 {env, func(o *Options) { o.Config = nil }, false},
		"part of a second":          {env, func(o *Options) { o.Compete = &Compete{Duration: 1500 * time.Millisecond} }, false},
		"too short":                 {env, func(o *Options) { o.Compete = &Compete{Duration: 2 * time.Second} }, false},
		"renews too late":           {env, func(o *Options) { o.Compete = &Compete{Duration: 4 * time.Second, RenewInterval: 3 * time.Second} }, false},
		"an issuer with a space":    {env, func(o *Options) { o.Compete = &Compete{Issuer: "a b"} }, false},
		"an identity with a space":  {env, func(o *Options) { o.Identity = "a b" }, false},
		"a grace that is negative":  {env, func(o *Options) { o.StopGrace = -1 }, false},
		"a release that is, either": {env, func(o *Options) { o.ReleaseTimeout = -1 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{Config: anyConfig}
			tc.change(&o)
			got, err := o.complete(func(key string) string { return tc.env[key] })
			if (err == nil) != tc.ok {
				t.Fatalf("error %v, want ok %t", err, tc.ok)
			}
			if err == nil && (got.Identity == "" || got.Name != "l" || got.Namespace != "n") {
				t.Errorf("%+v", got)
			}
		})
	}
	a, _ := Options{Config: anyConfig, Namespace: "n", Name: "l", Compete: &Compete{}}.complete(func(string) string { return "" })
	b, _ := Options{Config: anyConfig, Namespace: "n", Name: "l", Compete: &Compete{}}.complete(func(string) string { return "" })
	if a.Identity == b.Identity {
		t.Error("two processes have one identity")
	}
}
