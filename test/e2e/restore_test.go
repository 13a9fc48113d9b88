// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/test/e2e/evidence"
	"leasehold.dev/test/harness"
)

// testStoreRestored: the cluster's store is put back to an older copy, and gives
// out the numbers that tokens are made of a second time. The database takes no
// write that is older than what it has seen, and an operator brings the job back
// by a least token.
func testStoreRestored(t *testing.T) {
	w := newWorld(t)
	const name = "restored"
	w.mayOverlap(name)
	w.arm(name)
	w.create(name, duration(15), w.guarded(name))
	first := w.accepted(name, 0)
	dir := filepath.Join(t.TempDir(), "store")
	if err := w.SaveStore(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	w.alive(name, first)
	w.spendNumbers(1000)
	pod, _ := podOf(first.Holder)
	w.deletePod(pod)
	second := w.accepted(name, first.Token)

	w.restored = true
	if err := w.RestoreStore(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	w.restartClients()
	var third evidence.Start
	w.eventually(3*time.Minute, "work after the restore", func(context.Context) error {
		for _, s := range w.starts(name) {
			if s.At.After(back) && s.Beats > 10 {
				third = s
				return nil
			}
		}
		return fmt.Errorf("there is none")
	})
	w.measured("store restored to next work", third.At.Sub(back))
	t.Logf("tokens: %d, %d, and %d after the restore", first.Token, second.Token, third.Token)
	if third.Token >= second.Token {
		t.Errorf("token %d is not below %d; the test has lost its point", third.Token, second.Token)
	}
	third = w.start(name, third.Boot)
	if third.Accepted > 0 || third.Refused == 0 {
		t.Errorf("%d writes of token %d were accepted and %d refused, after those of token %d", third.Accepted, third.Token, third.Refused, second.Token)
	}
	if last := w.start(name, second.Boot).Last; last.After(back.Add(lapse)) {
		t.Errorf("the holder that the store has forgotten worked until %s, and the store was back at %s", last, back)
	}

	least := second.Token + 1_000_000
	w.change(name, func(j *v1alpha1.SingletonJob) { j.Spec.Lease.MinToken = least })
	pod, _ = podOf(third.Holder)
	w.deletePod(pod)
	w.accepted(name, least-1)
}

// spendNumbers uses up resource versions, so that those of the restored store stay
// below for a while.
func (w *world) spendNumbers(n int) {
	w.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "numbers"}}
	if err := w.Client.Create(w.Context(), m); err != nil {
		w.Fatal(err)
	}
	for i := range n {
		m.Data = map[string]string{"number": strconv.Itoa(i)}
		if err := w.Client.Update(w.Context(), m); err != nil {
			w.Fatal(err)
		}
	}
}

// restartClients does what every guide to restoring a store says: whatever keeps
// a copy of it, such as a controller, has one of a future that will not come.
func (w *world) restartClients() {
	w.Helper()
	programs := append([]string{"control/kube-controller-manager", "control/kube-scheduler"}, w.NodeNames()...)
	for _, program := range programs {
		if err := w.Stop(w.Context(), program); err != nil {
			w.Fatal(err)
		}
		if err := w.Cluster.Start(w.Context(), program); err != nil {
			w.Fatal(err)
		}
	}
	w.kubectl("-n", harness.Namespace, "rollout", "restart", "deployment", harness.Deployment)
	if err := w.Ready(w.Context()); err != nil {
		w.Fatal(err)
	}
}

// accepted waits for work of a token greater than that with accepted writes.
func (w *world) accepted(job string, after int64) evidence.Start {
	w.Helper()
	s := w.working(job, after, 2*time.Minute)
	w.eventually(20*time.Second, "an accepted write", func(context.Context) error {
		if s = w.start(job, s.Boot); s.Accepted == 0 {
			return fmt.Errorf("none of %v", s)
		}
		return nil
	})
	return s
}
