// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/internal/holder/core"
	"leasehold.dev/leaderelect/lease"
)

func TestRenewsForAsLongAsItWorks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.work()
	for range 20 {
		before := w.record().RenewTime
		w.advance(5 * time.Second)
		w.answer(core.Renew)
		if got := w.record().RenewTime.Sub(before); got < 4999*time.Millisecond {
			t.Fatalf("renewTime moved by %s", got)
		}
		if w.guard != w.sentAt.Add(11500*time.Millisecond) {
			t.Fatalf("guard at %v", w.guard)
		}
	}
	w.wantForwards()
}

func TestTrustCountsFromTheStartOfTheRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.work()
	w.advance(5 * time.Second)
	sent := w.now
	w.advance(4 * time.Second) // The reply takes that long.
	w.answer(core.Renew)
	if w.guard != sent.Add(11500*time.Millisecond) {
		t.Errorf("guard at %v, want it counted from %v", w.guard, sent)
	}
}

// refuse fails every request until the time is over.
func refuse(w *world, d time.Duration, failure core.Failure) {
	end := w.now.Add(d)
	for !end.Reached(w.now) && w.exited == nil {
		w.advance(100 * time.Millisecond)
		if w.request != nil {
			w.request = nil
			w.step(core.Reply{Failure: failure, Err: errLost})
		}
	}
}

func TestLostContactStopsTheWorkInTime(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]core.Failure{"silence": core.Unknown, "denial": core.Refused} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, config())
			w.work()
			refuse(w, 9900*time.Millisecond, failure)
			w.wantForwards()
			refuse(w, 100*time.Millisecond, failure)
			w.wantForwards(syscall.SIGTERM)
			refuse(w, 1400*time.Millisecond, failure)
			w.wantKills(0)
			refuse(w, 100*time.Millisecond, failure)
			w.wantKills(1)
			w.wantForwards(syscall.SIGTERM)
			w.end(137)
			refuse(w, 10*time.Second, failure)
			w.wantExit(core.CodeLost)
		})
	}
}

func TestRecoversFromFailuresBeforeStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.work()
	refuse(w, 8*time.Second, core.Unknown)
	w.advance(time.Second)
	w.answer(core.Read)
	w.answer(core.Renew)
	w.advance(4 * time.Second)
	w.wantForwards()
	w.wantKills(0)
}

func TestWorkThatStopsWithSuccessAfterALossIsNoSuccess(t *testing.T) {
	t.Parallel()
	c := config()
	c.CloseOnSuccess = true
	w := newWorld(t, c)
	token := w.work()
	refuse(w, 10*time.Second, core.Unknown)
	w.wantForwards(syscall.SIGTERM)
	w.end(0)
	w.advance(time.Second)
	w.answer(core.Read)
	w.answer(core.Release)
	w.wantExit(core.CodeLost)
	w.wantReleased(token, v1alpha1.OutcomeStopped)
	if w.record().Closed != "" {
		t.Error("closed as completed")
	}
}

func TestLateReplyDoesNotReviveALostTerm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.work()
	w.advance(10 * time.Second) // The renewal sent at 5 s is under way.
	w.wantForwards(syscall.SIGTERM)
	guard := w.guard
	w.answer(core.Renew)
	if w.guard != guard {
		t.Error("the guard was moved")
	}
	w.advance(1500 * time.Millisecond)
	w.wantKills(1)
	w.advance(10 * time.Second)
	if w.request != nil {
		t.Errorf("sends %s for a lost term", w.request.Kind)
	}
}

func TestFrozenPastTheDeadlineKillsBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	events := map[string]func(w *world) core.Event{
		"tick":   func(*world) core.Event { return core.Tick{} },
		"signal": func(*world) core.Event { return core.Signal{Number: syscall.SIGTERM} },
		"watch":  func(w *world) core.Event { return core.Seen{Lease: w.lease} },
		"reply": func(w *world) core.Event {
			reply := w.apply()
			w.request = nil
			return reply
		},
	}
	for name, event := range events {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, config())
			w.work()
			w.advance(5 * time.Second)
			w.under(core.Renew)
			w.now = w.now.Add(time.Minute)
			for _, a := range w.step(event(w)) {
				if _, ok := a.(core.Kill); ok {
					break
				}
				switch a.(type) {
				case core.Say, core.Guard:
				default:
					t.Fatalf("%#v before the kill", a)
				}
			}
			w.wantKills(1)
		})
	}
}

func TestWallClockAloneEndsTheTerm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.work()
	w.now.Wall += time.Minute // The virtual machine was paused.
	w.step(core.Tick{})
	w.wantKills(1)
	w.wantForwards()
}

func TestElapsedClockAloneEndsTheTerm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.work()
	w.now.Wall -= time.Hour // The wall clock was set back.
	w.step(core.Tick{})
	w.wantKills(0)
	w.now.Elapsed += 12 * time.Second
	w.step(core.Tick{})
	w.wantKills(1)
}

func TestEndRequestLeadsToTheNextTerm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	first := w.work()
	w.manage(lease.Observation.RequestEnd)
	w.watch()
	w.wantForwards(syscall.SIGTERM)
	w.advance(5 * time.Second)
	w.answer(core.Renew) // The work is stopping.
	w.wantForwards(syscall.SIGTERM)
	w.end(0)
	w.answer(core.Release)
	w.wantReleased(first, v1alpha1.OutcomeStopped)
	if w.exited != nil {
		t.Fatal("exit after an end request")
	}
	second := w.grant(me)
	w.watch()
	w.answer(core.Confirm)
	w.wantWork(first, second)
	if w.announce[0] == w.announce[len(w.announce)-1] {
		t.Error("the second term has the nonce of the first")
	}
}

func TestEndRequestedBeforeTheStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	token := w.grant(me)
	w.list()
	w.drop(core.Confirm, true)
	w.manage(lease.Observation.RequestEnd)
	w.advance(time.Second)
	w.answer(core.Read)
	w.answer(core.Confirm)
	w.wantWork()
	w.answer(core.Release)
	w.wantReleased(token, v1alpha1.OutcomeStopped)
	if w.exited != nil {
		t.Error("exit after an end request")
	}
}

func TestOrderlyStopRenewsUntilTheWorkHasEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	token := w.work()
	w.step(core.Signal{Number: syscall.SIGTERM})
	for range 3 {
		w.advance(5 * time.Second)
		w.answer(core.Renew)
	}
	w.advance(4900 * time.Millisecond)
	w.wantKills(0)
	w.advance(200 * time.Millisecond)
	w.wantKills(1)
	w.wantForwards(syscall.SIGTERM)
	if w.request != nil {
		w.answer(core.Renew)
	}
	w.end(137)
	w.answer(core.Release)
	w.wantExit(137)
	w.wantReleased(token, v1alpha1.OutcomeStopped)
}

func TestSignalsAreForwarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.grant(me)
	w.list()
	w.answer(core.Confirm)
	w.step(core.Signal{Number: syscall.SIGHUP}) // While the command is being started.
	w.wantForwards()
	w.step(core.Started{})
	for _, s := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGINT} {
		w.step(core.Signal{Number: s})
	}
	w.wantForwards(syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGINT)
}

func TestNothingIsRenewedForADeadWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	w.work()
	w.step(core.Ended{Code: 0})
	w.advance(20 * time.Second) // What it left behind does not die.
	if w.request != nil {
		t.Errorf("sends %s", w.request.Kind)
	}
	w.running = false // For the world: the container ends with the agent.
	w.advance(10 * time.Second)
	w.wantExit(core.CodeLost)
}

func TestCommandThatCannotBeStarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, config())
	token := w.grant(me)
	w.list()
	w.answer(core.Confirm)
	w.running = false
	w.step(core.Started{Err: errors.New("no such file"), Code: 127})
	w.step(core.Gone{})
	w.answer(core.Release)
	w.wantExit(127)
	w.wantReleased(token, v1alpha1.OutcomeFailed)
}
