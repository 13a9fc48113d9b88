// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/test/e2e/evidence"
)

const (
	// lapse is the duration of the leases whose lapse is measured.
	lapse = 15 * time.Second
	// afterLapse is how long the next pod may take once a lease has lapsed.
	afterLapse = 3 * time.Second
	// trust is how long after its last renewal work may run.
	trust = lapse * 4 / 5
	// longGrace keeps a kubelet from killing, and thereby waking, what is frozen.
	longGrace = 90
)

// testFrozen: a holder that is frozen loses its lease when that lapses. When it
// wakes up, the database refuses its writes, and its agent ends it.
func testFrozen(t *testing.T) {
	w := newWorld(t)
	const name = "frozen"
	w.mayOverlap(name)
	w.arm(name)
	w.create(name, duration(15), grace(longGrace), w.guarded(name))
	old := w.working(name, 0, time.Minute)
	pod, uid := podOf(old.Holder)
	began := w.freeze(pod)
	next := w.held(name, old.Token, 2*time.Minute)
	w.within(lapse+latency*afterLapse, "freeze to held again", time.Since(began))
	if string(next.UID) == uid {
		t.Error("the frozen pod was granted the lease again")
	}
	successor := w.working(name, old.Token, 20*time.Second)
	w.eventually(20*time.Second, "a guarded write of the successor", func(context.Context) error {
		if w.start(name, successor.Boot).Accepted == 0 {
			return errors.New("none was accepted")
		}
		return nil
	})
	accepted := w.start(name, old.Boot).Accepted
	if accepted == 0 {
		t.Error("no write of the old holder was ever accepted, so that a refusal proves nothing")
	}
	// Its agent would end it at once: it is held back, so that only the database
	// stands in the way.
	w.signalAgent(pod, syscall.SIGSTOP)
	w.thaw(pod)
	w.eventually(20*time.Second, "a refused write of the old holder", func(context.Context) error {
		if w.start(name, old.Boot).Refused == 0 {
			return errors.New("none was refused")
		}
		return nil
	})
	// That the old one lived on is on record, or the checks that other cases rely
	// on would see nothing either.
	if starts := w.starts(name); evidence.NoOverlap(starts) == nil ||
		evidence.StoppedBeforeGrant(starts, w.seen.all()[w.recorded(name)]) == nil {
		t.Errorf("the overlap of a frozen holder is not on record: %v", starts)
	}
	awake := time.Now()
	w.signalAgent(pod, syscall.SIGCONT)
	w.gone(30*time.Second, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: pod}})
	w.within(latency*handOver, "wake-up of the old agent to the end of its work", w.start(name, old.Boot).Last.Sub(awake))
	// At most the one write that was on its way may have come before the raise.
	if now := w.start(name, old.Boot).Accepted; now > accepted+1 {
		t.Errorf("the old holder's accepted writes rose from %d to %d after it woke up", accepted, now)
	}
}

// testFrozenForbid: under Forbid a lapse is not enough. Nothing starts until the
// frozen holder is proven to have ended, and the job says what is awaited.
func testFrozenForbid(t *testing.T) {
	w := newWorld(t)
	const name = "frozen"
	w.create(name, duration(15), grace(longGrace), overlap(v1alpha1.OverlapForbid))
	old := w.working(name, 0, time.Minute)
	pod, _ := podOf(old.Holder)
	began := w.freeze(pod)
	w.blocked(name)
	w.within(lapse+latency*afterLapse, "freeze to Blocked", time.Since(began))
	w.nothingNew(name, old.Token, 10*time.Second)
	thawed := time.Now()
	w.thaw(pod)
	next := w.working(name, old.Token, time.Minute)
	w.within(latency*(handOver+restartInPlace), "thaw to next work", next.At.Sub(thawed))
	w.unblocked(name)
}

// blocked waits until a job says that its holder cannot be reached, and what to
// do about it.
func (w *world) blocked(name string) {
	w.Helper()
	message := w.condition(name, v1alpha1.ConditionBlocked, v1alpha1.BlockedHolderUnreachable, 2*time.Minute)
	for _, way := range []string{"bring the node back", "out-of-service", "force-delete"} {
		if !strings.Contains(message, way) {
			w.Errorf("condition Blocked does not mention %q as a way out: %s", way, message)
		}
	}
}

func (w *world) unblocked(name string) {
	w.Helper()
	w.job(name, 20*time.Second, "be unblocked", func(j *v1alpha1.SingletonJob) error {
		for _, c := range j.Status.Conditions {
			if c.Type == v1alpha1.ConditionBlocked && c.Status == metav1.ConditionTrue {
				return errors.New(conditions(j))
			}
		}
		return nil
	})
}

// nothingNew watches for a while that no work of a greater token starts.
func (w *world) nothingNew(job string, token int64, span time.Duration) {
	w.Helper()
	errStarted := errors.New("new work")
	err := poll(w.Context(), span, func(context.Context) error {
		for _, s := range w.starts(job) {
			if s.Token > token {
				w.Fatalf("new work has started: %v", s)
			}
		}
		return errStarted // Not so far; go on looking.
	})
	if !errors.Is(err, errStarted) {
		w.Fatal(err)
	}
}

func (w *world) freeze(pod string) time.Time {
	w.Helper()
	if err := w.Freeze(w.Context(), w.ns, pod, "probe"); err != nil {
		w.Fatal(err)
	}
	return time.Now()
}

func (w *world) thaw(pod string) {
	w.Helper()
	if err := w.Thaw(w.Context(), w.ns, pod, "probe"); err != nil {
		w.Fatal(err)
	}
}

func (w *world) signalAgent(pod string, sig syscall.Signal) {
	w.Helper()
	if err := w.Kill(w.Context(), w.ns, pod, "probe", sig); err != nil {
		w.Fatal(fmt.Errorf("signal %v to the agent: %w", sig, err))
	}
}
