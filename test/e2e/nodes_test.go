// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/test/cluster"
	"leasehold.dev/test/e2e/evidence"
)

// testCutOff: a node loses the API server, and with it the means to renew. The
// agent ends the work before its trust ends; under Fence another pod follows when
// the lease has lapsed, under Forbid when the node is back or somebody vouches.
func testCutOff(t *testing.T) {
	w := newWorld(t)
	node := w.NodeNames()[1]
	w.useNode(node)
	w.create("fence", duration(15), w.startingOn(node))
	w.create("forbid", duration(15), w.startingOn(node), overlap(v1alpha1.OverlapForbid))
	fence, forbid := w.workingOn("fence", 0, node), w.workingOn("forbid", 0, node)
	w.cordon(node)
	began := w.cut(node)

	w.held("fence", fence.Token, 2*time.Minute)
	w.within(lapse+latency*afterLapse, "cut to held again under Fence", time.Since(began))
	w.stoppedInTime("fence", fence)
	w.blocked("forbid")
	w.stoppedInTime("forbid", forbid)
	w.nothingNew("forbid", forbid.Token, 5*time.Second)

	healed := w.heal(node)
	next := w.working("forbid", forbid.Token, 2*time.Minute)
	w.measured("heal to next work under Forbid", next.At.Sub(healed))
	w.unblocked("forbid")
	w.podGone(fence)
	w.podGone(forbid)
	w.vouched(node)
}

// vouched cuts the node off again, and an operator says that it is off.
func (w *world) vouched(node string) {
	w.Helper()
	w.uncordon(node)
	w.create("vouched", duration(15), w.startingOn(node), overlap(v1alpha1.OverlapForbid))
	old := w.workingOn("vouched", 0, node)
	w.cordon(node)
	w.cut(node)
	w.blocked("vouched")
	w.stoppedInTime("vouched", old)
	w.nothingNew("vouched", old.Token, 2*time.Second)
	const taint = corev1.TaintNodeOutOfService + "=nodeshutdown:NoExecute"
	w.kubectl("taint", "node", node, taint)
	w.Cleanup(func() {
		_, _ = w.Kubectl(context.WithoutCancel(w.Context()), "taint", "node", node, taint+"-")
	})
	began := time.Now()
	next := w.working("vouched", old.Token, time.Minute)
	w.measured("out-of-service taint to next work under Forbid", next.At.Sub(began))
	w.unblocked("vouched")
	w.kubectl("taint", "node", node, taint+"-")
	w.heal(node)
	w.podGone(old)
}

// testKubeletStopped: where an agent renews, work does not need its kubelet.
// Where the kubelet stands for it, its silence ends the term.
func testKubeletStopped(t *testing.T) {
	w := newWorld(t)
	node := w.NodeNames()[2]
	w.useNode(node)
	w.mayOverlap("kubelet")
	w.create("agent", duration(15), w.startingOn(node))
	w.create("kubelet", kubelet, w.startingOn(node))
	agent, old := w.workingOn("agent", 0, node), w.workingOn("kubelet", 0, node)
	w.held("kubelet", 0, 20*time.Second)
	w.cordon(node)
	if err := w.Stop(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	next := w.working("kubelet", old.Token, 3*time.Minute)
	w.within(40*time.Second+latency*afterLapse, "stop of the kubelet to next work", next.At.Sub(began))
	w.alive("agent", agent)

	if err := w.Start(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	w.podGone(old)
	w.measured("start of the kubelet to the end of the old pod", time.Since(began))
	if last := w.start("kubelet", old.Boot).Last; last.After(time.Now().Add(-time.Second)) {
		t.Errorf("the old work goes on without its pod: last sign of life %s", last)
	}
	w.alive("agent", agent)
}

// testNodeFrozen: a whole node stands still, as a paused virtual machine does.
// When it wakes up, long after its leases have lapsed, its agent ends the work.
func testNodeFrozen(t *testing.T) {
	w := newWorld(t)
	node := w.NodeNames()[2]
	w.useNode(node)
	const name = "paused"
	w.mayOverlap(name)
	w.arm(name)
	w.create(name, duration(15), w.startingOn(node), w.guarded(name))
	old := w.workingOn(name, 0, node)
	w.cordon(node)
	if err := w.FreezeNode(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	next := w.working(name, old.Token, 2*time.Minute)
	w.within(lapse+latency*afterLapse, "freeze of the node to next work", next.At.Sub(began))
	if err := w.ThawNode(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	awake := time.Now()
	w.podGone(old)
	// Negative: it was ended before it came to give another sign of life.
	w.within(latency*handOver, "wake-up of the node to the last sign of life of its work", w.start(name, old.Boot).Last.Sub(awake))
}

// alive makes sure that a start goes on, and that no other was needed.
func (w *world) alive(job string, s evidence.Start) {
	w.Helper()
	beats := w.start(job, s.Boot).Beats
	w.eventually(5*time.Second, "signs of life of "+job, func(context.Context) error {
		if w.start(job, s.Boot).Beats <= beats {
			return errors.New("there are none")
		}
		return nil
	})
	if h := w.held(job, 0, 5*time.Second); h.Token != s.Token {
		w.Errorf("%s is held with token %d, want %d still", job, h.Token, s.Token)
	}
	if all := w.starts(job); len(all) != 1 {
		w.Errorf("%s was started %d times, want once: %v", job, len(all), all)
	}
}

// stoppedInTime makes sure that work had ended when its term could not be
// trusted any more.
func (w *world) stoppedInTime(job string, s evidence.Start) {
	w.Helper()
	renewed := w.seen.renewedAt(w.recorded(job), s.Token)
	ran := w.start(job, s.Boot).Last.Sub(renewed)
	w.measured("last renewal of "+job+" to its last sign of life", ran)
	if ran >= trust {
		w.Errorf("%s ran for %s after its last renewal, want less than %s", job, ran, trust)
	}
}

// inUse keeps the cases that break a node from each other.
var inUse = map[string]*sync.Mutex{}

// useNode takes a node for this case alone, and leaves it as it was found,
// whatever happens.
func (w *world) useNode(node string) {
	w.Helper()
	inUse[node].Lock()
	w.Cleanup(func() {
		defer inUse[node].Unlock()
		ctx := context.WithoutCancel(w.Context())
		err := errors.Join(w.ThawNode(ctx, node), w.Heal(ctx, node), w.Start(ctx, node))
		_, err2 := w.Kubectl(ctx, "uncordon", node)
		if err := errors.Join(err, err2); err != nil {
			w.Error(err)
		}
	})
	w.schedulable(node)
}

// schedulable waits until a node takes pods again, which it does some time after
// its kubelet is back.
func (w *world) schedulable(node string) {
	w.Helper()
	w.eventually(time.Minute, "node "+node+" to take pods", func(ctx context.Context) error {
		var n corev1.Node
		if err := w.Client.Get(ctx, types.NamespacedName{Name: node}, &n); err != nil {
			return err
		}
		for _, taint := range n.Spec.Taints {
			if taint.Key != faultTaint {
				return fmt.Errorf("it has taint %s", taint.Key)
			}
		}
		return nil
	})
}

func (w *world) workingOn(job string, after int64, node string) evidence.Start {
	w.Helper()
	s := w.working(job, after, time.Minute)
	if h := w.held(job, after, 10*time.Second); h.Node != node {
		w.Fatalf("%s runs on %s, want %s", job, h.Node, node)
	}
	return s
}

func (w *world) cut(node string) time.Time {
	w.Helper()
	if err := w.Cut(w.Context(), node, cluster.CutAPI); err != nil {
		w.Fatal(err)
	}
	return time.Now()
}

func (w *world) heal(node string) time.Time {
	w.Helper()
	if err := w.Heal(w.Context(), node); err != nil {
		w.Fatal(err)
	}
	return time.Now()
}

func (w *world) cordon(node string) { w.Helper(); w.kubectl("cordon", node) }

func (w *world) uncordon(node string) {
	w.Helper()
	w.kubectl("uncordon", node)
	w.schedulable(node)
}

func (w *world) kubectl(args ...string) string {
	w.Helper()
	out, err := w.Kubectl(w.Context(), args...)
	if err != nil {
		w.Fatal(err)
	}
	return out
}

// podGone waits for the end of the pod of a start.
func (w *world) podGone(s evidence.Start) {
	w.Helper()
	pod, _ := podOf(s.Holder)
	w.gone(2*time.Minute, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: pod}})
}
