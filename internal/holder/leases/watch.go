// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"

	"leasehold.dev/internal/holder/clock"
)

const (
	// watchLifetime is how long a watch lasts at least before it is begun anew.
	watchLifetime = 5 * time.Minute
	// silence is how long a watch may deliver nothing. The API server sends
	// bookmarks about once a minute; a frozen one, a dead peer, or a version
	// from the future (a restored store) shows as silence and nothing else.
	silence = 90 * time.Second
	// listTimeout bounds the read before a watch.
	listTimeout = 10 * time.Second
	// Pauses after failures double from the first to the last.
	firstPause = 200 * time.Millisecond
	lastPause  = 10 * time.Second
)

// Change is what a watcher saw.
type Change struct {
	// Lease; nil: there is none.
	Lease *coordinationv1.Lease
	// Version is the resourceVersion of a deletion that the watch delivered.
	Version string
	// Live says that this is the answer to a read asked at Asked.
	Live  bool
	Asked clock.Instant
}

// Watcher reports every change of the Lease.
type Watcher struct {
	Client *Client
	Clock  clock.Clock
	// Report is called for each look, in order.
	Report func(Change)
	// Trouble is called when watching fails, and with nil when it works again.
	Trouble func(error)
}

// Run lists and watches until ctx ends. Each time the watch ends it begins with
// a live read, so that nothing is missed for longer than silence. After failures,
// and watches that end at once, it pauses.
func (w *Watcher) Run(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		began := w.Clock.Now()
		err := w.once(ctx)
		w.Trouble(err)
		if err == nil && w.Clock.Now().Since(began) > lastPause {
			pause = firstPause
			continue
		}
		w.sleep(ctx, time.Duration(float64(pause)*(0.5+rand.Float64())))
		pause = min(2*pause, lastPause)
	}
}

// once lists and then watches until the watch ends; nil when it ended in the
// ordinary way, or gave no sign of life.
func (w *Watcher) once(ctx context.Context) error {
	asked := w.Clock.Now()
	l, version, err := w.Client.list(ctx, listTimeout)
	if err != nil {
		return err
	}
	w.Trouble(nil)
	w.Report(Change{Lease: l, Live: true, Asked: asked})

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	alarm := w.Clock.NewAlarm()
	defer alarm.Stop()
	quiet := w.Clock.Now().Add(silence)
	alarm.Set(quiet)
	events, err := w.open(ctx, cancel, alarm, version)
	if err != nil {
		return err
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-alarm.C():
			if now := w.Clock.Now(); quiet.Reached(now) {
				return nil
			}
		case ev, ok := <-events.ResultChan():
			if !ok {
				return nil
			}
			if err := w.pass(ev); err != nil {
				return err
			}
			quiet = w.Clock.Now().Add(silence)
			alarm.Set(quiet)
		}
	}
}

// open begins a watch, but not for longer than the alarm: a server that accepts
// the request and does not answer it would be waited for without end.
func (w *Watcher) open(ctx context.Context, cancel context.CancelFunc, alarm clock.Alarm, version string) (watch.Interface, error) {
	type result struct {
		events watch.Interface
		err    error
	}
	opened := make(chan result, 1)
	go func() {
		lifetime := watchLifetime + time.Duration(rand.Int64N(int64(watchLifetime)))
		events, err := w.Client.watch(ctx, version, lifetime)
		opened <- result{events, err}
	}()
	select {
	case r := <-opened:
		return r.events, r.err
	case <-alarm.C():
		cancel()
		if r := <-opened; r.err == nil {
			r.events.Stop()
		}
		return nil, fmt.Errorf("the API server did not begin a watch within %s", silence)
	}
}

func (w *Watcher) pass(ev watch.Event) error {
	switch ev.Type {
	case watch.Added, watch.Modified:
		if l, ok := ev.Object.(*coordinationv1.Lease); ok {
			w.Report(Change{Lease: l})
		}
	case watch.Deleted:
		if l, ok := ev.Object.(*coordinationv1.Lease); ok {
			w.Report(Change{Version: l.ResourceVersion})
		}
	case watch.Error:
		return fmt.Errorf("watch: %w", apierrors.FromObject(ev.Object))
	case watch.Bookmark:
	}
	return nil
}

func (w *Watcher) sleep(ctx context.Context, d time.Duration) {
	alarm := w.Clock.NewAlarm()
	defer alarm.Stop()
	at := w.Clock.Now().Add(d)
	alarm.Set(at)
	for !at.Reached(w.Clock.Now()) {
		select {
		case <-ctx.Done():
			return
		case <-alarm.C():
		}
	}
}
