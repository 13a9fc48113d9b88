// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	"leasehold.dev/api/v1alpha1"
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
	w.measured("API server back to next work under Fence", w.working("fence", fence.Token, 2*time.Minute).At.Sub(back))
	w.measured("API server back to next work under Forbid", w.working("forbid", forbid.Token, 2*time.Minute).At.Sub(back))
	w.stoppedInTime("fence", fence)
	w.stoppedInTime("forbid", forbid)
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
