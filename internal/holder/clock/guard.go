// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"context"
	"sync"
)

// Guard acts at its deadline, on a goroutine and alarm of its own, whatever
// everybody else is busy with. After a freeze its timer has fired already.
type Guard struct {
	clock Clock
	alarm Alarm
	act   func()

	mu sync.Mutex
	at Instant
}

// NewGuard returns a disarmed guard that lives until ctx ends.
func NewGuard(ctx context.Context, c Clock, act func()) *Guard {
	g := &Guard{clock: c, alarm: c.NewAlarm(), act: act}
	go g.run(ctx)
	return g
}

// Set replaces the deadline; the zero Instant disarms.
func (g *Guard) Set(at Instant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at = at
	g.alarm.Set(at)
}

func (g *Guard) run(ctx context.Context) {
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

// look acts once per deadline. The lock is not held meanwhile.
func (g *Guard) look() {
	g.mu.Lock()
	due := !g.at.IsZero() && g.at.Reached(g.clock.Now()) // Or it is woken for an earlier deadline.
	if due {
		g.at = Instant{}
	}
	g.mu.Unlock()
	if due {
		g.act()
	}
}
