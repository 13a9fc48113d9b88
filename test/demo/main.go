// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// The demonstration runs the main job with nothing faked: a real API server,
// real kubelets and containers, a real PostgreSQL. A single writer is stopped
// just before a write, its lease lapses, a successor takes over with a greater
// fencing token, and the old writer wakes up and writes.
//
// DEMO_FENCE=off leaves the fence out and shows the damage. DEMO_KEEP=1 leaves
// the cluster to look around in. It ends with status 0 only if it saw what it
// announces.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"leasehold.dev/test/cluster"
	"leasehold.dev/test/harness"
)

// limit bounds the story once everything is built and installed.
const limit = 4 * time.Minute

func main() {
	harness.ServeDatabase()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv("DEMO_FENCE") != "off", os.Getenv("DEMO_KEEP") != "")
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\nThe demonstration failed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, fence, keep bool) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("nodes need root on Linux: run it as root")
	}
	// Faults need nodes of our own, whatever cluster the shell is set up for.
	if err := os.Unsetenv("KUBECONFIG"); err != nil {
		return err
	}
	log, err := logFile()
	if err != nil {
		return err
	}
	defer log.Close()
	config := cluster.Config{Name: "demo", Log: log}
	began := time.Now()
	title("A singleton, a pause, and a stale write", fence)
	step("A real Kubernetes, with two nodes")
	say("Built from Go modules, once a machine (about ten minutes the first time); details in %s.", log.Name())
	if err := cluster.DownCluster(ctx, config); err != nil {
		return err
	}
	h, err := harness.Up(ctx, config)
	if err != nil {
		return fmt.Errorf("start the cluster: %w; see %s", err, log.Name())
	}
	defer func() { err = errors.Join(err, finish(ctx, h, keep)) }()
	say("Up after %s.", time.Since(began).Round(time.Second))
	s := &story{Harness: h, fence: fence}
	defer s.close()
	if err := s.tell(ctx); err != nil {
		s.explain(context.WithoutCancel(ctx))
		return err
	}
	s.summary(time.Since(began))
	return nil
}

func logFile() (*os.File, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "leasehold")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return os.Create(filepath.Join(dir, "demo.log"))
}

// finish takes the cluster down, or says how to look around in it.
func finish(ctx context.Context, h *harness.Harness, keep bool) error {
	if !keep {
		return h.Down(context.WithoutCancel(ctx))
	}
	kubectl, err := cluster.Tool(ctx, os.Stderr, "kubectl")
	if err != nil {
		kubectl, _ = exec.LookPath("kubectl")
	}
	fmt.Printf(`
The cluster is still up (DEMO_KEEP). To look around:

    export KUBECONFIG=%s
    %s get sj,lease,pods -o wide

To end it: make cluster-down CLUSTER_FLAGS='--name demo'
`, h.Kubeconfig(), kubectl)
	return nil
}
