// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package singletonjob

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// The back-off of a refused write.
	leastHeld = time.Second
	mostHeld  = 15 * time.Second
)

// heldError says that a write waits, and for how long: the API server refused it
// when it was last tried.
type heldError time.Duration

func (e heldError) Error() string {
	return fmt.Sprintf("refused a moment ago; tried again in %s", time.Duration(e))
}

// held remembers the refused write of each job, the one at which its plans stop.
type held struct {
	mu  sync.Mutex
	all map[types.NamespacedName]heldWrite
}

type heldWrite struct {
	what  string
	wait  time.Duration
	again time.Time
}

// left is how long a write is not to be tried again; zero or less: it may be.
func (h *held) left(key types.NamespacedName, what string, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if last := h.all[key]; last.what == what {
		return last.again.Sub(now)
	}
	return 0
}

// note takes in what came of a write. One that passes says nothing of another.
func (h *held) note(key types.NamespacedName, what string, refused bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.all[key]
	switch {
	case refused && last.what == what:
		last.wait = min(2*last.wait, mostHeld)
	case refused:
		last = heldWrite{what: what, wait: leastHeld}
	case last.what == what:
		delete(h.all, key)
		return
	default:
		return
	}
	last.again = now.Add(last.wait)
	if h.all == nil {
		h.all = map[types.NamespacedName]heldWrite{}
	}
	h.all[key] = last
}

func (h *held) forget(key types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, key)
}
