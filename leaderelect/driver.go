// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderelect

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/fencing"
	"leasehold.dev/internal/holder/clock"
	"leasehold.dev/internal/holder/core"
	"leasehold.dev/internal/holder/message"
	"leasehold.dev/leaderelect/lease"
)

// stopSignal asks the machine to stop the work, release and end.
var stopSignal = core.Signal{Number: syscall.SIGTERM}

// stopped is the exit status of a machine that had nothing to stop.
const stopped = 128 + int(syscall.SIGTERM)

// driver carries out what the machine decides in one Run. Only its loop touches
// the machine; all that may wait runs elsewhere and reports an event.
type driver struct {
	e       *Elector
	io      context.Context // of requests; ends with Run
	ctx     context.Context // the caller's
	f       Func
	machine *core.Machine
	guard   *clock.Guard
	events  chan core.Event
	p99     time.Duration

	// term is the newest one, and err what its function returned.
	term atomic.Pointer[Term]
	err  error
	exit *int
}

// returned is the end of a function.
type returned struct {
	core.Ended
	err error
}

func (e *Elector) newDriver(ctx, io context.Context, f Func, issuer string) *driver {
	d := &driver{e: e, io: io, ctx: ctx, f: f, machine: core.New(e.config(issuer)), events: make(chan core.Event)}
	d.guard = clock.NewGuard(io, e.clock, func() {
		if t := d.term.Load(); t != nil {
			t.guard()
		}
	})
	return d
}

// run drives the machine until it exits.
func (d *driver) run() error {
	alarm := d.e.clock.NewAlarm()
	defer alarm.Stop()
	var ev core.Event = core.Tick{}
	for {
		d.take(ev)
		if d.exit != nil {
			return d.result(*d.exit)
		}
		alarm.Set(d.machine.NextWake())
		select {
		case ev = <-d.events:
		case <-alarm.C():
			ev = core.Tick{}
		}
	}
}

func (d *driver) take(ev core.Event) {
	if p99 := d.e.sections.p99(); p99 != d.p99 {
		d.p99 = p99
		d.step(core.Measured{P99: p99})
	}
	if r, ok := ev.(returned); ok {
		d.err, ev = r.err, r.Ended
	}
	d.step(ev)
}

func (d *driver) step(ev core.Event) {
	for _, a := range d.machine.Step(d.e.clock.Now(), ev) {
		d.do(a)
	}
	if t := d.term.Load(); t != nil {
		t.trust(d.machine.Trusted())
	}
}

func (d *driver) do(a core.Action) {
	switch a := a.(type) {
	case core.Send:
		go func() { d.report(d.e.server.Do(d.io, a)) }()
	case core.Start:
		d.start(a.Claim)
	case core.Forward:
		d.term.Load().stop(d.cause(a.Cause))
	case core.Kill:
		d.term.Load().overrun()
	case core.Guard:
		d.guard.Set(a.At)
	case core.Announce:
		d.announce(a.Nonce)
	case core.Say:
		d.e.log().Info(a.Text)
	case core.Exit:
		d.exit = &a.Code
	}
}

// announce tells the kubelet which start this container ran, where a controller
// asks for proof of a holder's end. Competing candidates ask for none.
func (d *driver) announce(nonce string) {
	if d.e.o.Compete != nil {
		return
	}
	if err := message.Append(d.e.o.TerminationMessagePath, nonce); err != nil {
		d.e.log().Warn("the termination message cannot be written, so after a crash the next holder has to wait for the lapse", "error", err)
	}
}

// cause is why the function has to return.
func (d *driver) cause(why error) error {
	switch {
	case why == nil:
		return context.Cause(d.ctx)
	case errors.Is(why, ErrEndRequested):
		return why
	}
	return lost(why)
}

// start begins a term and its function.
func (d *driver) start(c core.Claim) {
	claim := fencing.Claim{Issuer: c.Issuer, Token: c.Token, Holder: c.Holder}
	ctx, cancel := context.WithCancelCause(fencing.NewContext(context.WithoutCancel(d.ctx), claim))
	t := &Term{claim: claim, clock: d.e.clock, sections: &d.e.sections, ctx: ctx, cancel: cancel}
	t.overrun = sync.OnceFunc(func() {
		if f := d.e.o.Overrun; f != nil && !t.isOver() {
			go f(t)
		}
	})
	t.trust(d.machine.Trusted())
	d.term.Store(t)
	go d.work(t)
}

// work runs the function. One that ends its goroutine has ended, too.
func (d *driver) work(t *Term) {
	d.report(core.Started{})
	end := returned{core.Ended{Code: 1}, errGoexit}
	defer func() {
		t.over()
		d.report(end)
		d.report(core.Gone{})
	}()
	if end.err = d.f(t.ctx, t); end.err == nil {
		end.Code = 0
	}
}

// report hands an event to the loop, or drops it when Run is over.
func (d *driver) report(ev core.Event) {
	select {
	case d.events <- ev:
	case <-d.io.Done():
	}
}

// trouble tells of the first failure to watch and of the end of failing.
func (d *driver) trouble() func(error) {
	failing := false
	return func(err error) {
		switch {
		case err != nil && !failing:
			d.e.log().Warn("cannot watch the lease; trying again", "error", err)
		case err == nil && failing:
			d.e.log().Info("watching the lease again")
		}
		failing = err != nil
	}
}

// result is Run's for the machine's exit status, of which functions give 0 and 1.
func (d *driver) result(code int) error {
	switch code {
	case 0:
		return nil
	case stopped:
		return context.Cause(d.ctx)
	case core.CodeNoAPI:
		return ErrUnreported
	case core.CodeLost:
		return d.lost()
	}
	return d.err
}

func (d *driver) lost() error {
	why := d.term.Load().Err()
	if !errors.Is(why, ErrLost) {
		why = lost(errOtherwise)
	}
	if d.err == nil || errors.Is(d.err, context.Canceled) {
		return why
	}
	return fmt.Errorf("%w; the function returned: %w", why, d.err)
}

// origin names this process among those of its container. It claims to have
// outlived none: an application may share its container with others.
func origin(getenv func(string) string) lease.Nonce {
	container := strings.ReplaceAll(first(getenv(v1alpha1.EnvContainer), "application"), ".", "-")
	return lease.Nonce{Container: container, Boot: "unknown" + random()}
}

// jittered is d, give or take a half.
func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.5 + rand.Float64()))
}
