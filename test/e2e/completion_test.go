// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1alpha1"
)

// breakGlass lets kubectl act as the group that the policies exempt.
var breakGlass = []string{"--as=operator", "--as-group=leasehold:break-glass", "--as-group=system:masters"}

// testCompletes: work that has succeeded never runs again, even if all that
// remembers it but the job's own status is deleted.
func testCompletes(t *testing.T) {
	w := newWorld(t)
	const name = "once"
	w.create(name, restart(corev1.RestartPolicyNever), probe("-exit-after", "1s"))
	w.condition(name, v1alpha1.ConditionComplete, "", time.Minute)
	w.count(name, 1)
	if err := w.Client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(w.ns)); err != nil {
		t.Fatal(err)
	}
	w.kubectl(append([]string{"-n", w.ns, "delete", "lease", name, "--timeout=30s"}, breakGlass...)...)
	w.nothingNew(name, w.starts(name)[0].Token, 10*time.Second)
	w.condition(name, v1alpha1.ConditionComplete, "", time.Second)
}

// testCompletesOnFailure: each start after a failure has a token of its own.
func testCompletesOnFailure(t *testing.T) {
	w := newWorld(t)
	const name = "retried"
	w.create(name, restart(corev1.RestartPolicyOnFailure), probe("-exit-after", "500ms", "-code", "1", "-succeed-at", "3"))
	w.condition(name, v1alpha1.ConditionComplete, "", 2*time.Minute)
	w.count(name, 3)
	w.nothingNew(name, w.starts(name)[2].Token, 3*time.Second)
}

// testBackoffLimit: work that fails more often than allowed is given up.
func testBackoffLimit(t *testing.T) {
	w := newWorld(t)
	const name = "hopeless"
	w.create(name, restart(corev1.RestartPolicyNever), backoffLimit(1), probe("-exit-after", "500ms", "-code", "1"))
	w.condition(name, v1alpha1.ConditionFailed, "", 2*time.Minute)
	w.count(name, 2)
	w.nothingNew(name, w.starts(name)[1].Token, 3*time.Second)
}

// count makes sure how often the work was started.
func (w *world) count(job string, want int) {
	w.Helper()
	if starts := w.starts(job); len(starts) != want {
		w.Fatalf("the work was started %d times, want %d: %v", len(starts), want, starts)
	}
}
