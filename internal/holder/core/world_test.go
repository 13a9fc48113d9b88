// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/internal/holder/clock"
	"leasehold.dev/internal/holder/core"
	"leasehold.dev/leaderelect/lease"
)

const (
	me     = "pod_uid"
	other  = "other_uid"
	issuer = "cluster/ns/lease"
)

var errLost = errors.New("connection lost")

// world is one machine, one Lease in a store, and one command, at a time that
// the test moves.
type world struct {
	t       *testing.T
	m       *core.Machine
	now     clock.Instant
	lease   *coordinationv1.Lease
	version int64

	request  *core.Send
	sentAt   clock.Instant
	running  bool
	started  []core.Claim
	announce []string
	guard    clock.Instant
	forwards []syscall.Signal
	kills    int
	exited   *int
	said     []string
	nonces   int
}

func config() lease.Config {
	return lease.Config{Duration: 15 * time.Second, RenewInterval: 5 * time.Second, TakeUp: time.Minute, TokenFloor: lease.MaxToken,
		OverlapPolicy: v1alpha1.OverlapFence, RenewedBy: v1alpha1.RenewedByAgent}
}

func origin() lease.Nonce { return lease.Nonce{Container: "main", Boot: "boot", Ticks: 100} }

// newWorld has a free Lease that the machine does not know yet.
func newWorld(t *testing.T, c lease.Config) *world {
	w := &world{t: t, version: 1000, now: clock.Instant{Elapsed: time.Hour, Wall: 1e6 * time.Hour}}
	w.m = core.New(core.Config{Holder: me, Origin: origin(), StopGrace: 20 * time.Second, ReleaseTimeout: 30 * time.Second,
		Jitter: func() float64 { return 1 },
		Random: func() string { w.nonces++; return "r" + strconv.Itoa(w.nonces) }})
	l := lease.New(metav1.ObjectMeta{Name: "lease", UID: "lease-uid"}, c, lease.Carry{})
	delete(l.Annotations, v1alpha1.AnnotationClosed)
	w.write(l)
	return w
}

// write stores a Lease as the API server does.
func (w *world) write(l *coordinationv1.Lease) {
	w.version++
	w.lease = l.DeepCopy()
	w.lease.ResourceVersion = strconv.FormatInt(w.version, 10)
}

// manage writes a step of the manager, of another agent or of a vandal.
func (w *world) manage(f func(o lease.Observation) (*coordinationv1.Lease, error)) {
	w.t.Helper()
	l, err := f(lease.Observation{Lease: w.lease, Age: time.Hour})
	if err != nil {
		w.t.Fatal(err)
	}
	w.write(l)
}

func (w *world) edit(f func(l *coordinationv1.Lease)) {
	w.manage(func(o lease.Observation) (*coordinationv1.Lease, error) {
		l := o.Lease.DeepCopy()
		f(l)
		return l, nil
	})
}

func (w *world) grant(holder string) int64 {
	w.t.Helper()
	w.manage(func(o lease.Observation) (*coordinationv1.Lease, error) {
		return o.Grant(holder, issuer, lease.Basis{Kind: lease.ByLapse}, w.now.Time())
	})
	return w.record().Token
}

func (w *world) record() lease.Record {
	w.t.Helper()
	r, err := lease.Parse(w.lease)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// step gives the machine an event and carries out its actions.
func (w *world) step(ev core.Event) []core.Action {
	w.t.Helper()
	actions := w.m.Step(w.now, ev)
	for _, a := range actions {
		w.do(a)
	}
	return actions
}

func (w *world) do(a core.Action) {
	w.t.Helper()
	if w.exited != nil {
		w.t.Fatalf("%#v after the exit", a)
	}
	switch a := a.(type) {
	case core.Send:
		if w.request != nil {
			w.t.Fatalf("%s is sent while %s is under way", a.Kind, w.request.Kind)
		}
		if a.Kind == core.Release && w.running {
			w.t.Fatal("released while the work runs")
		}
		w.request, w.sentAt = &a, w.now
	case core.Announce:
		w.announce = append(w.announce, a.Nonce)
	case core.Start:
		w.running = true
		w.started = append(w.started, a.Claim)
	case core.Forward:
		w.forwards = append(w.forwards, a.Number)
	case core.Kill:
		w.kills++
	case core.Guard:
		w.guard = a.At
	case core.Say:
		w.said = append(w.said, a.Text)
	case core.Exit:
		if w.running {
			w.t.Fatal("exit while the work runs")
		}
		w.exited = &a.Code
	}
}

// apply carries out the request under way on the store; its reply.
func (w *world) apply() core.Reply {
	r := w.request
	switch {
	case r.Kind == core.Create && w.lease == nil:
		l := r.Lease.DeepCopy()
		l.UID = types.UID("lease-uid-" + strconv.FormatInt(w.version, 10))
		w.write(l)
		return core.Reply{Lease: w.lease}
	case w.lease == nil && r.Lease == nil:
		return core.Reply{Failure: core.Absent, Err: errors.New("not found")}
	case r.Lease == nil:
		return core.Reply{Lease: w.lease}
	case w.lease == nil || r.Lease.UID != w.lease.UID || r.Lease.ResourceVersion != w.lease.ResourceVersion:
		return core.Reply{Failure: core.Conflict, Err: errors.New("conflict")}
	}
	w.write(r.Lease)
	return core.Reply{Lease: w.lease}
}

// answer lets the request under way succeed or fail as the store says.
func (w *world) answer(want core.Kind) {
	w.t.Helper()
	w.under(want)
	reply := w.apply()
	w.request = nil
	w.step(reply)
}

// drop loses the request; applied says whether it was carried out before.
func (w *world) drop(want core.Kind, applied bool) {
	w.t.Helper()
	w.under(want)
	if applied {
		w.apply()
	}
	w.request = nil
	w.step(core.Reply{Failure: core.Unknown, Err: errLost})
	if w.request != nil {
		w.t.Fatalf("tries again (%s) without a pause", w.request.Kind)
	}
}

func (w *world) under(want core.Kind) {
	w.t.Helper()
	if w.request == nil || w.request.Kind != want {
		w.t.Fatalf("the request under way is %+v, want %s; said %q", w.request, want, w.said)
	}
}

// advance moves time, with a step whenever the machine asked for one.
func (w *world) advance(d time.Duration) {
	w.t.Helper()
	end := w.now.Add(d)
	for w.exited == nil {
		next := w.m.NextWake()
		if next.IsZero() || !next.Reached(end) {
			break
		}
		if !next.Reached(w.now) {
			w.now = w.now.Add(min(next.Elapsed-w.now.Elapsed, next.Wall-w.now.Wall))
		}
		w.step(core.Tick{})
		if w.exited == nil && w.m.NextWake() == next {
			w.t.Fatalf("the machine asks for a step at %v again and again", next)
		}
	}
	if w.now.Elapsed < end.Elapsed {
		w.now = w.now.Add(end.Elapsed - w.now.Elapsed)
	}
}

// watch delivers the store's state as a watch does.
func (w *world) watch() {
	w.t.Helper()
	w.step(core.Seen{Lease: w.lease})
}

func (w *world) list() {
	w.t.Helper()
	w.step(core.Seen{Lease: w.lease, Live: true, Asked: w.now})
}

// work brings the machine to running work under a token.
func (w *world) work() int64 {
	w.t.Helper()
	token := w.grant(me)
	w.list()
	w.answer(core.Confirm)
	w.step(core.Started{})
	if !w.running {
		w.t.Fatal("the work does not run")
	}
	return token
}

// end lets the command end, and everything of it.
func (w *world) end(code int) {
	w.t.Helper()
	w.step(core.Ended{Code: code})
	if w.request != nil && w.request.Kind == core.Release {
		w.t.Fatal("released before everything of the work was gone")
	}
	w.running = false
	w.step(core.Gone{})
	if !w.guard.IsZero() {
		w.t.Error("the guard stays armed for work that is gone")
	}
}

func (w *world) wantExit(code int) {
	w.t.Helper()
	if w.exited == nil || *w.exited != code {
		got := "none"
		if w.exited != nil {
			got = strconv.Itoa(*w.exited)
		}
		w.t.Errorf("exit status %s, want %d; said %q", got, code, w.said)
	}
}

func (w *world) wantReleased(token int64, outcome v1alpha1.Outcome) {
	w.t.Helper()
	if r := w.record(); r.Released != token || r.Outcome != outcome {
		w.t.Errorf("released %d as %q, want %d as %q", r.Released, r.Outcome, token, outcome)
	}
}

func (w *world) wantForwards(want ...syscall.Signal) {
	w.t.Helper()
	if !slices.Equal(w.forwards, want) {
		w.t.Errorf("signals %v, want %v", w.forwards, want)
	}
}

func (w *world) wantKills(want int) {
	w.t.Helper()
	if w.kills != want {
		w.t.Errorf("%d kills, want %d; said %q", w.kills, want, w.said)
	}
}

func (w *world) wantWork(want ...int64) {
	w.t.Helper()
	var got []int64
	for _, c := range w.started {
		got = append(got, c.Token)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Errorf("work started with tokens %v, want %v", got, want)
	}
}
