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
// waits anew, and so does one whose live read shows a resourceVersion that went
// backwards (a restored store). It counts up to when the newest live read was
// begun: a reply that was long under way, or that lay unread while the process
// was stopped, says nothing about the time since.
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

const (
	// sweepEvery is how often subjects are looked through for ones to drop.
	sweepEvery = time.Hour
	// keepFor is how long a subject is kept that nobody sees or waits for. Caches
	// show all that they hold again about every ten hours, so it is gone.
	keepFor = 24 * time.Hour
)

// Tracker measures ages and wakes keys. Its methods may be called concurrently.
type Tracker struct {
	clock clock.WithTicker

	mu        sync.Mutex
	subjects  map[string]sighting
	deadlines deadlineHeap
	waiting   map[string]map[types.NamespacedName]*deadline // By subject.
	swept     time.Time
	changed   chan struct{}
}

type sighting struct {
	value   string
	version string
	since   time.Time
	seen    time.Time
}

// NewTracker returns a Tracker on the given clock.
func NewTracker(c clock.WithTicker) *Tracker {
	return &Tracker{
		clock:    c,
		subjects: map[string]sighting{},
		waiting:  map[string]map[types.NamespacedName]*deadline{},
		swept:    c.Now(),
		changed:  make(chan struct{}, 1),
	}
}

// Now is the tracker's time, to be taken before a live read is begun.
func (t *Tracker) Now() time.Time { return t.clock.Now() }

// Observe records a live read that was begun at a given time, and returns how
// long the subject had been seen unchanged by then. Another value, or a version
// below the one last seen or not comparable with it, starts the age anew. A
// version that moved under the same value (an edit of something else) does not.
func (t *Tracker) Observe(subject, value, version string, begun time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, known := t.subjects[subject]
	since := t.record(subject, value, version, known && last.value == value && notBefore(version, last.version))
	return max(begun.Sub(since), 0)
}

// See records what a watch delivered. A watch may lag behind a live read: an
// older version than the one last seen is passed over.
func (t *Tracker) See(subject, value, version string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, known := t.subjects[subject]
	if known && before(version, last.version) {
		return
	}
	t.record(subject, value, version, known && last.value == value && notBefore(version, last.version))
}

// record takes a sighting in and returns since when its value stands.
func (t *Tracker) record(subject, value, version string, unchanged bool) time.Time {
	now := t.clock.Now()
	since := now
	if unchanged {
		since = t.subjects[subject].since
	}
	t.subjects[subject] = sighting{value: value, version: version, since: since, seen: now}
	return since
}

// Known reports whether the subject has been seen and not forgotten.
func (t *Tracker) Known(subject string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, known := t.subjects[subject]
	return known
}

// Forget drops a subject. Whoever waits for it is woken: what it waited for will
// not come true any more, and it must look again.
func (t *Tracker) Forget(subject string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.subjects, subject)
	for _, item := range t.waiting[subject] {
		item.due = t.clock.Now()
		heap.Fix(&t.deadlines, item.index)
	}
	if len(t.waiting[subject]) > 0 {
		t.signal()
	}
}

// Await wakes key once when subject has been unchanged for d, or at once where
// subject is not known (any more). A later Await of the same key and subject
// takes the place of an earlier one.
func (t *Tracker) Await(key types.NamespacedName, subject string, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	due := t.clock.Now()
	if s, known := t.subjects[subject]; known {
		due = s.since.Add(d)
	}
	if item, ok := t.waiting[subject][key]; ok {
		item.duration, item.due = d, due
		heap.Fix(&t.deadlines, item.index)
	} else {
		item = &deadline{key: key, subject: subject, duration: d, due: due}
		if t.waiting[subject] == nil {
			t.waiting[subject] = map[types.NamespacedName]*deadline{}
		}
		t.waiting[subject][key] = item
		heap.Push(&t.deadlines, item)
	}
	t.signal()
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

// popDue returns the keys to wake now, and how long until there is more to do.
func (t *Tracker) popDue() ([]types.NamespacedName, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	t.sweep(now)
	next := t.swept.Add(sweepEvery).Sub(now)
	var due []types.NamespacedName
	for len(t.deadlines) > 0 {
		item := t.deadlines[0]
		if item.due.After(now) {
			return due, min(item.due.Sub(now), next)
		}
		s, known := t.subjects[item.subject]
		if known && s.since.Add(item.duration).After(now) {
			item.due = s.since.Add(item.duration) // It moved meanwhile.
			heap.Fix(&t.deadlines, 0)
			continue
		}
		heap.Pop(&t.deadlines)
		t.dropWait(item)
		due = append(due, item.key)
	}
	return due, next
}

func (t *Tracker) dropWait(item *deadline) {
	delete(t.waiting[item.subject], item.key)
	if len(t.waiting[item.subject]) == 0 {
		delete(t.waiting, item.subject)
	}
}

// sweep drops what was not seen for long and is not waited for: an observation
// may come after the watch's word that its object is gone.
func (t *Tracker) sweep(now time.Time) {
	if now.Sub(t.swept) < sweepEvery {
		return
	}
	t.swept = now
	for subject, s := range t.subjects {
		if now.Sub(s.seen) >= keepFor && len(t.waiting[subject]) == 0 {
			delete(t.subjects, subject)
		}
	}
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

func before(version, last string) bool {
	c, err := resourceversion.CompareResourceVersion(version, last)
	return err == nil && c < 0
}

type deadline struct {
	key      types.NamespacedName
	subject  string
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
