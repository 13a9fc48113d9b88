// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lapse measures, on one process's monotonic clock, how long things
// have been seen unchanged, and wakes whoever waits for that to reach a
// duration.
//
// Renewals are the bulk of all traffic and change nothing that a controller
// must act on. The tracker takes them in without a reconcile: it keeps one heap
// of deadlines, looks at a deadline only when it is due, and then finds that
// the subject has moved or that somebody must be woken.
//
// An age counts from when this process first saw the value, so a new process
// waits anew, and so does one that sees a resourceVersion go backwards (a
// restored store).
package lapse

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
)

// Tracker measures ages and wakes keys. Its methods may be called concurrently.
type Tracker struct {
	clock clock.WithTicker

	mu        sync.Mutex
	subjects  map[string]sighting
	deadlines deadlineHeap
	waiting   map[waitKey]*deadline
	changed   chan struct{}
}

type sighting struct {
	value   string
	version string
	since   time.Time
}

type waitKey struct {
	key     types.NamespacedName
	subject string
}

// NewTracker returns a Tracker on the given clock.
func NewTracker(c clock.WithTicker) *Tracker {
	return &Tracker{
		clock:    c,
		subjects: map[string]sighting{},
		waiting:  map[waitKey]*deadline{},
		changed:  make(chan struct{}, 1),
	}
}

// Observe records a sighting of a subject and returns how long its value has
// been seen unchanged, up to this sighting. Another value, or a version below
// the one last seen or not comparable with it, starts the age anew. A version
// that moved under the same value (an edit of something else) does not.
func (t *Tracker) Observe(subject, value, version string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	last, known := t.subjects[subject]
	since := now
	if known && last.value == value && notBefore(version, last.version) {
		since = last.since
	}
	t.subjects[subject] = sighting{value: value, version: version, since: since}
	return now.Sub(since)
}

// Known reports whether the subject has been seen and not forgotten.
func (t *Tracker) Known(subject string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.subjects[subject]
	return known
}

// Forget drops a subject, and every wait for it.
func (t *Tracker) Forget(subject string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.subjects, subject)
}

// Await wakes key once when subject has been unchanged for d. A later Await of
// the same key and subject takes the place of an earlier one.
func (t *Tracker) Await(key types.NamespacedName, subject string, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, known := t.subjects[subject]
	if !known {
		return
	}
	w := waitKey{key, subject}
	if item, ok := t.waiting[w]; ok {
		item.duration, item.due = d, s.since.Add(d)
		heap.Fix(&t.deadlines, item.index)
	} else {
		item = &deadline{waitKey: w, duration: d, due: s.since.Add(d)}
		t.waiting[w] = item
		heap.Push(&t.deadlines, item)
	}
	t.signal()
}

// Cancel drops the wait of key for subject.
func (t *Tracker) Cancel(key types.NamespacedName, subject string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := waitKey{key, subject}
	if item, ok := t.waiting[w]; ok {
		heap.Remove(&t.deadlines, item.index)
		delete(t.waiting, w)
	}
}

// Run calls wake for each key whose wait has come true, until ctx ends.
func (t *Tracker) Run(ctx context.Context, wake func(types.NamespacedName)) {
	timer := t.clock.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		due, next := t.popDue()
		for _, key := range due {
			wake(key)
		}
		timer.Reset(next)
		select {
		case <-ctx.Done():
			return
		case <-t.changed:
		case <-timer.C():
		}
	}
}

// popDue returns the keys to wake now, and how long until the next deadline.
func (t *Tracker) popDue() ([]types.NamespacedName, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	var due []types.NamespacedName
	for len(t.deadlines) > 0 {
		item := t.deadlines[0]
		if item.due.After(now) {
			return due, item.due.Sub(now)
		}
		s, known := t.subjects[item.subject]
		if known && s.since.Add(item.duration).After(now) {
			item.due = s.since.Add(item.duration) // It moved meanwhile.
			heap.Fix(&t.deadlines, 0)
			continue
		}
		heap.Pop(&t.deadlines)
		delete(t.waiting, item.waitKey)
		if known {
			due = append(due, item.key)
		}
	}
	return due, time.Hour
}

func (t *Tracker) signal() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

func notBefore(version, last string) bool {
	c, err := resourceversion.CompareResourceVersion(version, last)
	return err == nil && c >= 0
}

type deadline struct {
	waitKey
	duration time.Duration
	due      time.Time
	index    int
}

type deadlineHeap []*deadline

func (h deadlineHeap) Len() int           { return len(h) }
func (h deadlineHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h deadlineHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *deadlineHeap) Push(x any) {
	item := x.(*deadline)
	item.index = len(*h)
	*h = append(*h, item)
}

func (h *deadlineHeap) Pop() any {
	old := *h
	item := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return item
}
