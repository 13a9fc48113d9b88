// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"syscall"
	"testing"
	"time"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/test/e2e/evidence"
	"leasehold.dev/test/harness"
)

const apiServer = "control/kube-apiserver"

// testOutage: the API server is away. If it is back before a renewal is due
// again and again, nobody notices. If not, agents stop their work in time, and it
// goes on when the API server is back.
func testOutage(t *testing.T) {
	w := newWorld(t)
	policies := map[string]v1alpha1.OverlapPolicy{"fence": v1alpha1.OverlapFence, "forbid": v1alpha1.OverlapForbid}
	for name, policy := range policies {
		w.create(name, duration(15), overlap(policy))
	}
	fence, forbid := w.working("fence", 0, time.Minute), w.working("forbid", 0, time.Minute)

	w.without(apiServer, 3*time.Second)
	w.alive("fence", fence)
	w.alive("forbid", forbid)

	back := w.without(apiServer, lapse+5*time.Second)
	// The managers have stopped too, and their own lease has to lapse first.
	for name, old := range map[string]evidence.Start{"fence": fence, "forbid": forbid} {
		next := w.working(name, old.Token, 2*time.Minute)
		w.within(lapse+latency*afterLapse, "API server back to next work of "+name, next.At.Sub(back))
	}
	w.stoppedInTime("fence", fence)
	w.stoppedInTime("forbid", forbid)
}

// testLeaderKilled: the manager that works and the holder die in the same moment.
// The other manager, which has watched all along, goes on.
func testLeaderKilled(t *testing.T) {
	w := newWorld(t)
	const name = "orphaned"
	w.create(name, duration(15))
	old := w.working(name, 0, time.Minute)
	leader, _ := podOf(w.kubectl("-n", harness.Namespace, "get", "lease", harness.Deployment, "-o", "jsonpath={.spec.holderIdentity}"))
	began := time.Now()
	if err := w.Cluster.Kill(t.Context(), harness.Namespace, leader, "manager", syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	pod, _ := podOf(old.Holder)
	if err := w.Cluster.Kill(t.Context(), w.ns, pod, "probe", syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	next := w.working(name, old.Token, 2*time.Minute)
	w.within(lapse+latency*afterLapse, "kill of the working manager and the holder to next work", next.At.Sub(began))
	if err := w.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// without takes a program of the cluster away for a while, and returns when it
// is back.
func (w *world) without(program string, span time.Duration) time.Time {
	w.Helper()
	ctx := w.Context()
	if err := w.Stop(ctx, program); err != nil {
		w.Fatal(err)
	}
	<-time.After(span)
	if err := w.Cluster.Start(ctx, program); err != nil {
		w.Fatal(err)
	}
	w.eventually(30*time.Second, "the cluster to be healthy", w.Healthy)
	return time.Now()
}
