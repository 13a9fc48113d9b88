// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package agent

import (
	"context"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"leasehold.dev/internal/holder/clock"
	"leasehold.dev/internal/holder/core"
	"leasehold.dev/internal/holder/leases"
)

// store is the API server's side of the one Lease.
type store interface {
	Get(ctx context.Context, timeout time.Duration) (*coordinationv1.Lease, error)
	Update(ctx context.Context, l *coordinationv1.Lease, timeout time.Duration) (*coordinationv1.Lease, error)
}

// worker is what a term runs.
type worker interface {
	// start returns at once and reports core.Started, core.Ended, core.Gone.
	start(claim core.Claim, report func(core.Event))
	signal(n syscall.Signal)
	kill()
}

// driver carries out what the machine decides. Only its loop touches the
// machine; everything that may wait runs elsewhere and reports an event.
type driver struct {
	clock    clock.Clock
	store    store
	worker   worker
	machine  *core.Machine
	guard    *guard
	log      *logger
	announce func(nonce string)
	events   chan core.Event

	exit *int
}

// run drives the machine until it exits; the exit status. When ctx ends the
// work is killed, and nothing is released.
func (d *driver) run(ctx context.Context) int {
	alarm := d.clock.NewAlarm()
	defer alarm.Stop()
	var ev core.Event = core.Tick{}
	for {
		for _, a := range d.machine.Step(d.clock.Now(), ev) {
			d.do(ctx, a)
		}
		if d.exit != nil {
			return *d.exit
		}
		alarm.Set(d.machine.NextWake())
		select {
		case ev = <-d.events:
		case <-alarm.C():
			ev = core.Tick{}
		case <-ctx.Done():
			d.worker.kill()
			return ExitLost
		}
	}
}

func (d *driver) do(ctx context.Context, a core.Action) {
	switch a := a.(type) {
	case core.Send:
		go d.send(ctx, a)
	case core.Announce:
		d.announce(a.Nonce)
	case core.Start:
		d.worker.start(a.Claim, func(ev core.Event) { d.report(ctx, ev) })
	case core.Forward:
		d.worker.signal(a.Number)
	case core.Kill:
		d.worker.kill()
	case core.Guard:
		d.guard.set(a.At)
	case core.Say:
		d.log.printf("%s", a.Text)
	case core.Exit:
		d.exit = &a.Code
	}
}

// report hands an event to the loop, or drops it when the agent is ending.
func (d *driver) report(ctx context.Context, ev core.Event) {
	select {
	case d.events <- ev:
	case <-ctx.Done():
	}
}

func (d *driver) send(ctx context.Context, a core.Send) {
	var l *coordinationv1.Lease
	var err error
	if a.Kind == core.Read {
		l, err = d.store.Get(ctx, a.Timeout)
	} else {
		l, err = d.store.Update(ctx, a.Lease, a.Timeout)
	}
	d.report(ctx, core.Reply{Lease: l, Failure: classify(err), Err: err})
}

// classify says what the end of a request tells about the Lease.
func classify(err error) core.Failure {
	switch {
	case err == nil:
		return core.None
	case apierrors.IsConflict(err):
		return core.Conflict
	case apierrors.IsNotFound(err):
		return core.Absent
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), apierrors.IsBadRequest(err):
		return core.Refused
	}
	return core.Unknown
}

// watched turns what a watcher saw into an event.
func watched(c leases.Change) core.Event {
	return core.Seen{Lease: c.Lease, Version: c.Version, Live: c.Live, Asked: c.Asked}
}
