// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package leaderelect_test

import (
	"context"
	"sync"
	"testing"
	"time"
)

// slots bounds how many contests run at a time.
var slots = sync.OnceValue(func() chan struct{} { return make(chan struct{}, *width) })

// inParallel runs contests with count seeds from first on, and returns what they showed.
func inParallel(t *testing.T, first, count int, run func(seed uint64) judgement) map[uint64]judgement {
	t.Helper()
	var mu sync.Mutex
	out := map[uint64]judgement{}
	var all sync.WaitGroup
	for i := range count {
		all.Go(func() {
			slots() <- struct{}{}
			defer func() { <-slots() }()
			seed := uint64(first + i)
			j := run(seed)
			mu.Lock()
			defer mu.Unlock()
			out[seed] = j
		})
	}
	all.Wait()
	return out
}

// untilEnough runs count contests and then more, few at a time, until they had
// enough terms: candidates who share a machine that is busy otherwise starve, and
// prove nothing. The test fails if that never helps.
func untilEnough(t *testing.T, first, count, enough int, run func(seed uint64) judgement) (all map[uint64]judgement, terms int) {
	t.Helper()
	all = map[uint64]judgement{}
	for batch := count; len(all) < 3*count && (len(all) < count || terms < enough); batch = 4 {
		for seed, j := range inParallel(t, first+len(all), batch, run) {
			all[seed] = j
			terms += j.terms
		}
	}
	if terms < enough {
		t.Errorf("only %d terms in %d schedules: they starve the candidates, and prove nothing", terms, len(all))
	}
	return all, terms
}

// stalls notices when this machine did not run this process for a while. What
// happens then is no fault of a protocol that holds "while it is scheduled".
type stalls struct {
	stop  context.CancelFunc
	done  chan struct{}
	worst time.Duration
}

func watchStalls(ctx context.Context) *stalls {
	ctx, stop := context.WithCancel(ctx)
	s := &stalls{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				now := time.Now()
				s.worst = max(s.worst, now.Sub(last)-20*time.Millisecond)
				last = now
			}
		}
	}()
	return s
}

func (s *stalls) end() time.Duration {
	s.stop()
	<-s.done
	return s.worst
}
