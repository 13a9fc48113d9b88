// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/internal/holder/clock"
	"leasehold.dev/internal/holder/clock/clocktest"
	"leasehold.dev/internal/holder/core"
	"leasehold.dev/leaderelect/lease"
)

func TestGuardKillsOnItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := clocktest.New()
		kills := 0
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		g := newGuard(ctx, c, func() { kills++ })
		pass := func(elapsed, wall time.Duration, want int) {
			t.Helper()
			c.Move(elapsed, wall)
			synctest.Wait()
			if kills != want {
				t.Fatalf("%d kills, want %d", kills, want)
			}
		}
		pass(time.Hour, time.Hour, 0)
		g.set(c.Now().Add(10 * time.Second))
		pass(9*time.Second, 9*time.Second, 0)
		g.set(c.Now().Add(10 * time.Second)) // Renewed.
		pass(9*time.Second, 9*time.Second, 0)
		pass(time.Second, 0, 1)
		pass(time.Hour, time.Hour, 1)
		g.set(c.Now().Add(10 * time.Second))
		pass(0, 10*time.Second, 2) // The wall clock alone.
		g.set(c.Now().Add(10 * time.Second))
		g.set(clock.Instant{})
		pass(time.Hour, time.Hour, 2)
		g.set(c.Now().Add(-time.Second))
		pass(0, 0, 3)
	})
}

// stuckStore never answers.
type stuckStore struct{}

func (stuckStore) Get(ctx context.Context, _ time.Duration) (*coordinationv1.Lease, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (s stuckStore) Update(ctx context.Context, _ *coordinationv1.Lease, d time.Duration) (*coordinationv1.Lease, error) {
	return s.Get(ctx, d)
}

// stuckWorker hangs in the middle of everything but kill, as a process table
// that is out of memory may.
type stuckWorker struct {
	ctx    context.Context
	killed chan struct{}
}

func (w stuckWorker) start(core.Claim, func(core.Event)) { <-w.ctx.Done() }
func (w stuckWorker) signal(syscall.Signal)              { <-w.ctx.Done() }
func (w stuckWorker) kill() {
	select {
	case w.killed <- struct{}{}:
	default:
	}
}

// okStore accepts every write.
type okStore struct{ stuckStore }

func (okStore) Update(_ context.Context, l *coordinationv1.Lease, _ time.Duration) (*coordinationv1.Lease, error) {
	l = l.DeepCopy()
	l.ResourceVersion = "9000"
	return l, nil
}

func TestDeadlineHoldsThoughTheDriverHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := clocktest.New()
		w := stuckWorker{ctx: ctx, killed: make(chan struct{}, 1)}
		d := &driver{
			clock: c, store: okStore{}, worker: w, log: newLogger(io.Discard), announce: func(string) {},
			machine: core.New(core.Config{Holder: "p_u", Origin: lease.Nonce{Container: "c", Boot: "b", Ticks: 1}, Random: random,
				Jitter: func() float64 { return 1 }, StopGrace: time.Second, ReleaseTimeout: time.Second}),
			guard: newGuard(ctx, c, w.kill), events: make(chan core.Event),
		}
		defer d.log.close(nil)
		go d.run(ctx)
		l := lease.New(metav1.ObjectMeta{Name: "l", UID: "l"}, lease.Config{Duration: 15 * time.Second, RenewInterval: 5 * time.Second, TokenFloor: lease.MaxToken,
			OverlapPolicy: v1alpha1.OverlapFence, RenewedBy: v1alpha1.RenewedByAgent}, lease.Carry{})
		delete(l.Annotations, v1alpha1.AnnotationClosed)
		l.ResourceVersion = "7000"
		granted, err := lease.Observation{Lease: l}.Grant("p_u", "i", lease.Basis{Kind: lease.ByRelease}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		granted.ResourceVersion = "8000"
		d.report(ctx, core.Seen{Lease: granted, Live: true, Asked: c.Now()})
		synctest.Wait() // Confirmed, and hanging in start.
		c.Advance(11 * time.Second)
		synctest.Wait()
		if len(w.killed) != 0 {
			t.Fatal("killed early")
		}
		c.Advance(500 * time.Millisecond)
		synctest.Wait()
		if len(w.killed) != 1 {
			t.Fatal("the work is not killed at the deadline")
		}
	})
}

// blocked is a standard error that nobody reads.
type blocked struct{ until chan struct{} }

func (b blocked) Write(p []byte) (int, error) {
	<-b.until
	return len(p), nil
}

func TestUnreadLogHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	b := blocked{until: make(chan struct{})}
	defer close(b.until)
	l := newLogger(b)
	for i := range 10 * logLines {
		l.printf("line %d", i)
	}
	giveUp := make(chan struct{})
	close(giveUp)
	l.close(giveUp)
	l.printf("after the end")
}

func TestStartTicks(t *testing.T) {
	t.Parallel()
	const rest = "S 0 1 1 0 -1 4194560 37 58 0 4 11 7 9 2 10 -10 13 0 "
	for _, name := range []string{"init", "a b", "a) R 9 9", "((", "sh -c)"} {
		got, err := startTicks([]byte("1 (" + name + ") " + rest + "12345 485 4207"))
		if err != nil || got != 12345 {
			t.Errorf("%q: %d, %v", name, got, err)
		}
	}
	for _, bad := range []string{"", "1 init S", "1 (init) S 0 1", "1 (init) " + rest + "x"} {
		if got, err := startTicks([]byte(bad)); err == nil {
			t.Errorf("%q: %d", bad, got)
		}
	}
}

func TestOriginComparesWithItself(t *testing.T) {
	t.Parallel()
	n, err := origin("main")
	if err != nil {
		t.Fatal(err)
	}
	n.Random = random()
	parsed, err := lease.ParseNonce(n.String())
	if err != nil || parsed != n {
		t.Fatalf("%s is read as %v, %v", n, parsed, err)
	}
	if n.Outlived(n) {
		t.Error("outlived itself")
	}
	later := n
	later.Ticks++
	if !later.Outlived(n) {
		t.Error("a later start in this container is not entitled")
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	pod := map[string]string{"LEASE_NAME": "l", "LEASE_NAMESPACE": "n", "LEASEHOLD_POD_NAME": "p", "LEASEHOLD_POD_UID": "u", "LEASEHOLD_CONTAINER": "c"}
	getenv := func(key string) string { return pod[key] }
	o, err := parse([]string{"--stop-grace=30s", "--", "/bin/server", "--port", "80", "--", "-x"}, getenv, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(o.command); got != "[/bin/server --port 80 -- -x]" || o.stopGrace != 30*time.Second || o.podUID != "u" {
		t.Errorf("%+v", o)
	}
	for _, bad := range [][]string{{}, {"--"}, {"--stop-grace=0", "--", "x"}, {"--stop-grace=soon", "--", "x"}, {"--release-timeout=-1s", "--", "x"}} {
		if _, err := parse(bad, getenv, io.Discard); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	for key := range pod {
		_, err := parse([]string{"--", "x"}, func(k string) string {
			if k == key {
				return ""
			}
			return pod[k]
		}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("without %s: %v", key, err)
		}
	}
	var help strings.Builder
	if _, err := parse([]string{"--help"}, getenv, &help); !errors.Is(err, flag.ErrHelp) || !strings.Contains(help.String(), "stop-grace") {
		t.Errorf("help: %v %q", err, help.String())
	}
}
