// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"leasehold.dev/test/cluster"
	"leasehold.dev/test/harness"
)

// testChart: the chart installs the same Leasehold.
func testChart(t *testing.T) {
	ctx := t.Context()
	helm, err := cluster.Tool(ctx, os.Stderr, "helm")
	if err != nil {
		t.Fatal(err)
	}
	// Nobody would take the finalizers off jobs that are left without a manager.
	if _, err := shared.Kubectl(ctx, "delete", "singletonjobs", "--all", "--all-namespaces", "--timeout=120s"); err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Kubectl(ctx, "delete", "-k", "config/default", "--timeout=120s"); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(ctx, helm, append([]string{"--kubeconfig", shared.Kubeconfig(), "--namespace", harness.Namespace}, args...)...)
		cmd.Dir = shared.Root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("helm %v: %v\n%s", args, err, out)
		}
	}
	began := time.Now()
	run("install", "leasehold", "charts/leasehold", "--set=image.tag=dev,agentImage.tag=dev", "--create-namespace", "--wait", "--timeout=120s")
	t.Logf("measured: helm install --wait: %.2f s", time.Since(began).Seconds())
	t.Run("Held", func(t *testing.T) {
		w := newWorld(t)
		job := w.create("charted")
		w.working("charted", 0, time.Minute)
		w.held("charted", 0, 10*time.Second)
		if err := w.Client.Delete(ctx, job); err != nil {
			t.Fatal(err)
		}
		w.gone(time.Minute, job)
	})
	run("uninstall", "leasehold", "--wait", "--timeout=120s")
}
