// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package agent

import (
	"context"
	"sync"

	"leasehold.dev/internal/holder/clock"
)

// guard kills at its deadline, on its own goroutine and alarm, whatever the
// driver is busy with. After a freeze its timer has fired already.
type guard struct {
	clock clock.Clock
	alarm clock.Alarm
	kill  func()

	mu sync.Mutex
	at clock.Instant
}

// newGuard returns a disarmed guard that lives until ctx ends.
func newGuard(ctx context.Context, c clock.Clock, kill func()) *guard {
	g := &guard{clock: c, alarm: c.NewAlarm(), kill: kill}
	go g.run(ctx)
	return g
}

func (g *guard) set(at clock.Instant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at = at
	g.alarm.Set(at)
}

func (g *guard) run(ctx context.Context) {
	defer g.alarm.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.alarm.C():
			g.look()
		}
	}
}

// look kills once per deadline. The lock is not held while killing.
func (g *guard) look() {
	g.mu.Lock()
	due := !g.at.IsZero() && g.at.Reached(g.clock.Now()) // Or it is woken for an earlier deadline.
	if due {
		g.at = clock.Instant{}
	}
	g.mu.Unlock()
	if due {
		g.kill()
	}
}
