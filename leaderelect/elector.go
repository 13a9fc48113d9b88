// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderelect

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"leasehold.dev/internal/holder/clock"
	"leasehold.dev/internal/holder/core"
	"leasehold.dev/internal/holder/leases"
)

const userAgent = "leasehold-leaderelect"

// Func is what an Elector runs in a term. It must return soon after ctx is done:
// by the deadline nobody else may have started, and until it has returned nothing
// is released. ctx carries the claim (fencing.FromContext).
type Func func(ctx context.Context, term *Term) error

// Elector holds a lease on behalf of a function.
type Elector struct {
	o       Options
	clock   clock.Clock
	server  server
	running atomic.Bool
	// sections outlive a term: the work is the same.
	sections sections
}

// server is the API server's side of the one Lease.
type server interface {
	Do(ctx context.Context, a core.Send) core.Reply
	Watch(ctx context.Context, report func(core.Event), trouble func(error))
	Issuer(ctx context.Context, timeout time.Duration) (string, error)
}

// New returns an Elector. It does not contact the API server.
func New(o Options) (*Elector, error) {
	o, err := o.complete(os.Getenv)
	if err != nil {
		return nil, err
	}
	client, err := leases.New(o.Config, userAgent, o.Namespace, o.Name)
	if err != nil {
		return nil, fmt.Errorf("leaderelect: %w", err)
	}
	c := clock.New()
	return &Elector{o: o, clock: c, server: &apiServer{client, c}}, nil
}

type apiServer struct {
	*leases.Client
	clock clock.Clock
}

func (s *apiServer) Watch(ctx context.Context, report func(core.Event), trouble func(error)) {
	w := leases.Watcher{Client: s.Client, Clock: s.clock, Trouble: trouble,
		Report: func(c leases.Change) { report(c.Event()) }}
	w.Run(ctx)
}

func (e *Elector) log() *slog.Logger {
	return e.o.Logger.With("namespace", e.o.Namespace, "lease", e.o.Name)
}

// Identity is who this Elector is as a holder.
func (e *Elector) Identity() string { return e.o.Identity }

// Run waits for terms and runs the function in each, one after the other. It
// returns when the function has returned of its own accord, or when ctx is done;
// the function has returned by then, and its term was released if the API server
// could be reached in time.
//
// It returns the function's error. Where the function succeeded: ErrUnreported
// where that could not be made known, and an error that wraps ErrLost where the
// Lease shows that the term had ended otherwise. Where no function ran: the cause
// of the end of ctx, or nil if the Lease says that the work is done already.
// After a term that was lost, or whose end was requested, Run waits for the next
// one, whatever the function returned; with OneTerm it returns after a lost one.
//
// While the API server cannot be reached Run waits. It never runs the function
// without a term.
func (e *Elector) Run(ctx context.Context, f Func) error {
	if !e.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer e.running.Store(false)
	issuer, err := e.issuer(ctx)
	if err != nil {
		return err
	}
	// A release follows the end of ctx.
	io, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	d := e.newDriver(ctx, io, f, issuer)
	defer context.AfterFunc(ctx, func() { d.report(stopSignal) })()
	go e.server.Watch(io, d.report, d.trouble())
	return d.run()
}

// issuer reads who issues the tokens, as long as that takes.
func (e *Elector) issuer(ctx context.Context) (string, error) {
	c := e.o.Compete
	if c == nil || c.Issuer != "" {
		return issuerOf(c), nil
	}
	alarm := e.clock.NewAlarm()
	defer alarm.Stop()
	t := c.timing()
	for failures := 0; ; failures++ {
		issuer, err := e.server.Issuer(ctx, t.RequestTimeout())
		switch {
		case err == nil:
			return issuer, nil
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return "", fmt.Errorf("leaderelect: %w (Compete.Issuer)", err)
		}
		e.log().Warn("cannot read who issues tokens; trying again", "error", err)
		at := e.clock.Now().Add(jittered(t.RetryInterval() << min(failures, 4)))
		for alarm.Set(at); !at.Reached(e.clock.Now()); {
			select {
			case <-ctx.Done():
				return "", context.Cause(ctx)
			case <-alarm.C():
			}
		}
	}
}

func issuerOf(c *Compete) string {
	if c == nil {
		return ""
	}
	return c.Issuer
}

// config is the machine's.
func (e *Elector) config(issuer string) core.Config {
	c := core.Config{
		Holder:         e.o.Identity,
		Origin:         origin(os.Getenv),
		Random:         random,
		Jitter:         func() float64 { return float64(jittered(time.Second)) / float64(time.Second) },
		StopGrace:      e.o.StopGrace,
		ReleaseTimeout: e.o.ReleaseTimeout,
		Loop:           !e.o.OneTerm,
	}
	if own := e.o.Compete; own != nil {
		c.Compete = &core.Compete{Namespace: e.o.Namespace, Name: e.o.Name, Issuer: issuer, Timing: own.timing(), Fresh: own.Fresh}
	}
	return c
}
