// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderelect

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"

	"leasehold.dev/internal/holder/core"
	"leasehold.dev/leaderelect/lease"
)

var anyConfig = &rest.Config{}

// TestFailureThatIsNoLoss: as long as a renewal succeeds in time, the function
// does not notice.
func TestFailureThatIsNoLoss(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(w *world){
		"a conflict with an edit": func(w *world) {
			for range 20 {
				w.edit(func(l *coordinationv1.Lease) { l.Labels["touched"] = w.clock.Now().Time().Format("150405.000") })
				w.pass(time.Second)
			}
		},
		"conflicts that no watch tells of": func(w *world) {
			w.deaf = true
			for range 20 {
				w.edit(func(l *coordinationv1.Lease) { l.Labels["touched"] = w.clock.Now().Time().Format("150405.000") })
				w.pass(time.Second)
			}
			w.deaf = false
		},
		"an older object from the watch": func(w *world) {
			old := w.lease
			w.pass(20 * time.Second)
			w.tell(core.Seen{Lease: old})
			synctest.Wait()
		},
		"throttled": func(w *world) {
			w.fails(always(throttled))
			w.pass(8 * time.Second)
		},
		"hung connections": func(w *world) {
			w.fails(always(vanishes))
			w.pass(7 * time.Second)
		},
		"a renewal whose reply is lost": func(w *world) {
			lost := false
			w.fails(func(a core.Send) verdict {
				if a.Kind == core.Renew && !lost {
					lost = true
					return unheard
				}
				return passes
			})
			w.pass(20 * time.Second)
		},
		"the wall clock is set back": func(w *world) {
			w.clock.Move(0, -time.Hour)
			synctest.Wait()
			w.pass(20 * time.Second)
		},
		"a short suspend": func(w *world) {
			w.clock.Advance(8 * time.Second)
			synctest.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(t *testing.T, w *world) {
				a, b := w.start(me), w.start(other)
				term := a.term(1)
				fail(w)
				wantValid(t, term, true)
				w.fails(nil)
				w.pass(20 * time.Second)
				wantValid(t, term, true)
				wantErr(t, term.Err(), nil)
				a.term(1)
				b.term(0)
			})
		})
	}
}

// TestFailureThatIsLoss: the context is cancelled with the cause, at once or at
// the latest when two thirds of the duration have passed; and Valid is false
// before anybody else may start.
func TestFailureThatIsLoss(t *testing.T) {
	t.Parallel()
	silent := func(v verdict) func(w *world) {
		return func(w *world) { w.fails(always(v)); w.deaf = true }
	}
	for name, tc := range map[string]struct {
		fail func(w *world)
		// stops is how long after the last renewal the context is cancelled.
		stops time.Duration
	}{
		"hung connections":     {silent(vanishes), 10 * time.Second},
		"throttled":            {silent(throttled), 10 * time.Second},
		"refused":              {silent(refused), 10 * time.Second},
		"replies are lost":     {silent(unheard), 10 * time.Second},
		"the Lease is deleted": {(*world).remove, 0},
		"the Lease is deleted, and no watch tells": {func(w *world) { w.deaf = true; w.remove() }, 5200 * time.Millisecond},
		"the token is stolen by hand": {func(w *world) {
			w.edit(func(l *coordinationv1.Lease) {
				thief := "thief"
				l.Spec.HolderIdentity = &thief
				*l.Spec.LeaseTransitions++
			})
		}, 0},
		"the holder is wiped": {func(w *world) {
			w.edit(func(l *coordinationv1.Lease) { none := ""; l.Spec.HolderIdentity = &none })
		}, 0},
		"another nonce": {func(w *world) {
			w.edit(func(l *coordinationv1.Lease) { l.Annotations["leasehold.dev/started"] = "x.y-1.z" })
		}, 0},
		"another takes it by hand": {func(w *world) {
			w.step(func(o lease.Observation) (*coordinationv1.Lease, error) {
				return o.Take(lease.Rival{Holder: "c", Nonce: "c.c-1.c", Issuer: issuer,
					Timing: lease.Timing{Duration: 15 * time.Second, RenewInterval: 5 * time.Second}}, w.clock.Now().Time())
			})
		}, 0},
		"the wall clock jumps ahead": {func(w *world) { w.clock.Move(0, time.Hour); synctest.Wait() }, 0},
		"a long suspend":             {func(w *world) { w.clock.Move(time.Hour, time.Hour); synctest.Wait() }, 0},
		"a paused virtual machine":   {func(w *world) { w.clock.Move(0, time.Minute); synctest.Wait() }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, func(t *testing.T, w *world) {
				a := w.start(me)
				w.pass(5*time.Second + 100*time.Millisecond) // It has just renewed.
				term, ctx := a.term(1), a.ctx
				tc.fail(w)
				if tc.stops > 0 {
					w.pass(tc.stops - 400*time.Millisecond)
					wantErr(t, context.Cause(ctx), nil)
					w.pass(600 * time.Millisecond)
				}
				wantErr(t, context.Cause(ctx), ErrLost)
				wantErr(t, term.Err(), ErrLost)
				wantValid(t, term, false)
				a.wantRunning()
				w.fails(nil)
				w.deaf = false
				w.pass(2 * time.Minute) // The next term is a new one, where it can be had.
				wantValid(t, term, false)
				a.mu.Lock()
				defer a.mu.Unlock()
				if n := len(a.terms); n > 1 && a.terms[n-1].Claim().Token <= term.Claim().Token {
					t.Error("the next term has no greater token")
				}
			})
		})
	}
}

// TestFirstValidAfterASuspendIsFalse: nobody has been told yet.
func TestFirstValidAfterASuspendIsFalse(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		a := w.start(me)
		term := a.term(1)
		w.clock.Move(12*time.Second, 0)
		if term.Valid() { // Before any goroutine ran.
			t.Error("valid")
		}
		wantErr(t, term.Err(), ErrLost)
		synctest.Wait()
	})
}

// TestLateRepliesDoNotExtendTrust: trust counts from the start of a request. It
// is checked against the request's start, and so fails for a holder that counts
// from the reply.
func TestLateRepliesDoNotExtendTrust(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		a := w.start(me)
		term := a.term(1)
		w.pass(4900 * time.Millisecond)
		sent := w.clock.Now()
		w.fails(func(core.Send) verdict { w.clock.Advance(2 * time.Second); return passes }) // The reply takes 2 s.
		w.pass(200 * time.Millisecond)
		w.fails(always(vanishes))
		if got := term.Deadline().Sub(sent.Time()); got > 12*time.Second+100*time.Millisecond {
			t.Errorf("trusts for %s after the request", got)
		}
	})
}

func TestOverrun(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		var overruns []bool
		leave := blocker(t)
		a := w.start(me, func(o *Options) {
			o.OneTerm = true
			o.Overrun = func(t *Term) { overruns = append(overruns, t.Valid()) }
		})
		a.returns(nil)
		result := make(chan error, 1)
		go func() {
			result <- a.e.Run(t.Context(), func(context.Context, *Term) error { return <-leave })
		}()
		synctest.Wait()
		b := w.start(other)
		w.fails(func(s core.Send) verdict {
			if s.Lease != nil && s.Lease.Spec.HolderIdentity != nil && *s.Lease.Spec.HolderIdentity == me {
				return vanishes
			}
			return passes
		})
		w.pass(5*time.Second + 11500*time.Millisecond)
		if len(overruns) != 1 {
			t.Fatalf("%d calls", len(overruns))
		}
		w.pass(time.Minute)
		b.term(1) // A function that does not return keeps nobody out for ever.
		if len(overruns) != 1 {
			t.Errorf("%d calls", len(overruns))
		}
		leave <- nil
		w.pass(time.Minute)
		wantErr(t, <-result, ErrLost)
	})
}

// TestAFunctionThatDoesNotStop: asked to stop by its own side, its term is renewed
// for StopGrace, and then runs out.
func TestAFunctionThatDoesNotStop(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		overruns := 0
		var mine *Term
		leave := blocker(t)
		a := w.start(me, func(o *Options) { o.Overrun = func(*Term) { overruns++ } })
		a.returns(nil)
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() {
			result <- a.e.Run(ctx, func(_ context.Context, term *Term) error { mine = term; return <-leave })
		}()
		synctest.Wait()
		b := w.start(other)
		cancel()
		w.pass(29 * time.Second)
		b.term(0)
		wantValid(t, mine, true)
		if overruns != 0 {
			t.Error("overrun within the grace")
		}
		w.pass(13*time.Second + 100*time.Millisecond)
		wantValid(t, mine, false)
		if overruns != 1 {
			t.Errorf("%d calls", overruns)
		}
		b.term(0)
		w.pass(10 * time.Second)
		wantValid(t, b.term(1), true)
		leave <- errWork
		w.pass(time.Second)
		wantErr(t, <-result, errWork)
		wantValid(t, b.term(1), true)
	})
}

func TestFunctionThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, w *world) {
		a := w.start(me)
		b := w.start(other)
		a.returns(nil)
		b.returns(nil)
		result := make(chan error, 1)
		go func() {
			result <- a.e.Run(t.Context(), func(context.Context, *Term) error { runtime.Goexit(); return nil })
		}()
		synctest.Wait()
		wantErr(t, <-result, errGoexit)
	})
}
