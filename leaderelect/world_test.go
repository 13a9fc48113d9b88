// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderelect

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"leasehold.dev/internal/holder/clock/clocktest"
	"leasehold.dev/internal/holder/core"
	"leasehold.dev/leaderelect/lease"
)

const (
	me     = "a_uid-a"
	other  = "b_uid-b"
	issuer = "cluster/ns/work"
)

// world is one Lease in memory, and electors on a clock that the test moves. It
// is for what depends on time; the real API server has tests of its own.
type world struct {
	t       *testing.T
	clock   *clocktest.Clock
	mu      sync.Mutex
	version int64
	lease   *coordinationv1.Lease
	// watchers are told of every write; requests counts what was asked.
	watchers map[*watcher]bool
	requests map[core.Kind]int
	// fault decides about a request; nil: it succeeds.
	fault func(a core.Send) verdict
	// deaf watches deliver nothing.
	deaf bool
}

// verdict is what happens to a request.
type verdict int

const (
	passes    verdict = iota
	vanishes          // It times out and is not applied.
	unheard           // It times out and was applied.
	throttled         // 429, 5xx: an answer that says that it was not done.
	refused
)

type watcher struct{ report func(core.Event) }

func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, &world{t: t, clock: clocktest.New(), version: 100, watchers: map[*watcher]bool{}, requests: map[core.Kind]int{}})
	})
}

func (w *world) Issuer(context.Context, time.Duration) (string, error) { return issuer, nil }

func (w *world) Watch(ctx context.Context, report func(core.Event), _ func(error)) {
	self := &watcher{report}
	w.mu.Lock()
	w.watchers[self] = true
	seen := core.Seen{Lease: w.lease, Live: true, Asked: w.clock.Now()}
	w.mu.Unlock()
	report(seen)
	<-ctx.Done()
	w.mu.Lock()
	delete(w.watchers, self)
	w.mu.Unlock()
}

func (w *world) Do(ctx context.Context, a core.Send) core.Reply {
	w.mu.Lock()
	w.requests[a.Kind]++
	v := passes
	if w.fault != nil {
		v = w.fault(a)
	}
	unknown := core.Reply{Failure: core.Unknown, Err: errors.New("no answer")}
	reply := unknown
	if v == passes || v == unheard {
		reply = w.apply(a)
	}
	w.mu.Unlock()
	switch v {
	case passes:
		return reply
	case refused:
		return core.Reply{Failure: core.Refused, Err: errors.New("forbidden")}
	case throttled:
		return unknown
	}
	alarm := w.clock.NewAlarm()
	defer alarm.Stop()
	alarm.Set(w.clock.Now().Add(a.Timeout))
	select {
	case <-ctx.Done():
	case <-alarm.C():
	}
	return unknown
}

// apply does what the API server does; the caller holds the lock.
func (w *world) apply(a core.Send) core.Reply {
	switch {
	case a.Kind == core.Create && w.lease == nil:
		l := a.Lease.DeepCopy()
		l.UID = types.UID(fmt.Sprint("uid-", w.version))
		return core.Reply{Lease: w.write(l)}
	case w.lease == nil:
		return core.Reply{Failure: core.Absent, Err: errors.New("not found")}
	case a.Kind == core.Read:
		return core.Reply{Lease: w.lease}
	case a.Lease.UID != w.lease.UID || a.Lease.ResourceVersion != w.lease.ResourceVersion:
		return core.Reply{Failure: core.Conflict, Err: errors.New("conflict")}
	}
	return core.Reply{Lease: w.write(a.Lease)}
}

func (w *world) write(l *coordinationv1.Lease) *coordinationv1.Lease {
	w.version++
	w.lease = l.DeepCopy()
	w.lease.ResourceVersion = strconv.FormatInt(w.version, 10)
	w.tell(core.Seen{Lease: w.lease})
	return w.lease
}

// tell reports without waiting: a watch does not hold up the server.
func (w *world) tell(ev core.Event) {
	if w.deaf {
		return
	}
	for self := range w.watchers {
		go self.report(ev)
	}
}

// step writes what f makes of the newest state.
func (w *world) step(f func(o lease.Observation) (*coordinationv1.Lease, error)) {
	w.t.Helper()
	w.mu.Lock()
	l, err := f(lease.Observation{Lease: w.lease, Age: time.Hour})
	if err == nil {
		w.write(l)
	}
	w.mu.Unlock()
	if err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) edit(f func(l *coordinationv1.Lease)) {
	w.t.Helper()
	w.step(func(o lease.Observation) (*coordinationv1.Lease, error) {
		l := o.Lease.DeepCopy()
		f(l)
		return l, nil
	})
}

func (w *world) remove() {
	w.mu.Lock()
	w.version++
	w.lease = nil
	w.tell(core.Seen{Version: strconv.FormatInt(w.version, 10)})
	w.mu.Unlock()
	synctest.Wait()
}

// fails sets what happens to requests from now on.
func (w *world) fails(f func(a core.Send) verdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = f
}

func always(v verdict) func(core.Send) verdict { return func(core.Send) verdict { return v } }

func (w *world) record() lease.Record {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	r, err := lease.Parse(w.lease)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) asked() map[core.Kind]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[core.Kind]int{}
	for k, n := range w.requests {
		out[k] = n
	}
	return out
}

// pass moves time, in steps that let everybody act.
func (w *world) pass(d time.Duration) {
	const step = 100 * time.Millisecond
	for ; d > 0; d -= step {
		w.clock.Advance(min(d, step))
		synctest.Wait()
	}
}

// run is one Run of an elector.
type run struct {
	w      *world
	e      *Elector
	cancel context.CancelCauseFunc
	result chan error
	// terms are what the function was called with; leave lets a call return.
	mu    sync.Mutex
	terms []*Term
	ctx   context.Context
	leave chan error
}

// start runs an elector that competes, with a function that returns when it is
// asked to, with the cause, or when the test says so.
func (w *world) start(name string, change ...func(*Options)) *run {
	w.t.Helper()
	o := Options{Config: &rest.Config{}, Namespace: "ns", Name: "work", Identity: name, Compete: &Compete{Issuer: issuer, Fresh: true}}
	for _, f := range change {
		f(&o)
	}
	o, err := o.complete(func(string) string { return "" })
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(w.t.Context())
	r := &run{w: w, cancel: cancel, result: make(chan error, 1), leave: make(chan error), e: &Elector{o: o, clock: w.clock, server: w}}
	go func() { r.result <- r.e.Run(ctx, r.work) }()
	w.t.Cleanup(func() { cancel(nil); w.fails(nil); w.pass(time.Minute) })
	synctest.Wait()
	return r
}

func (r *run) work(ctx context.Context, t *Term) error {
	r.mu.Lock()
	r.terms = append(r.terms, t)
	r.ctx = ctx
	r.mu.Unlock()
	select {
	case err := <-r.leave:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// term is the newest, of n.
func (r *run) term(n int) *Term {
	r.w.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.terms) != n {
		r.w.t.Fatalf("%s has had %d terms, want %d", r.e.Identity(), len(r.terms), n)
	}
	if n == 0 {
		return nil
	}
	return r.terms[n-1]
}

func (r *run) returns(err error) {
	r.leave <- err
	synctest.Wait()
}

func (r *run) stop(cause error) {
	r.cancel(cause)
	synctest.Wait()
}

// wantResult waits for Run's end.
func (r *run) wantResult(want error) {
	r.w.t.Helper()
	select {
	case got := <-r.result:
		if !errors.Is(got, want) {
			r.w.t.Errorf("Run returned %v, want %v", got, want)
		}
	default:
		r.w.t.Fatal("Run has not returned")
	}
}

func (r *run) wantRunning() {
	r.w.t.Helper()
	select {
	case got := <-r.result:
		r.w.t.Fatalf("Run has returned %v", got)
	default:
	}
}

// wantValid also checks that Err agrees.
func wantValid(t *testing.T, term *Term, want bool) {
	t.Helper()
	if got := term.Valid(); got != want {
		t.Fatalf("valid: %t, want %t; %v", got, want, term.Err())
	}
	if !want && term.Err() == nil {
		t.Error("a term that is not valid has no error")
	}
}

func wantErr(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("error %v, want %v", got, want)
	}
}
