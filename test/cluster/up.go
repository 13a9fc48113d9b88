// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"leasehold.dev/test/cluster/image"
	"leasehold.dev/test/cluster/internal/components"
	"leasehold.dev/test/cluster/internal/pki"
)

// Up starts a cluster and returns when its nodes are ready. Where it runs already it
// only makes sure that it is healthy. Where KUBECONFIG names a cluster that was not
// started here, that one is used instead.
func Up(ctx context.Context, cfg Config) (*Cluster, error) {
	c, err := load(kindCluster, cfg)
	if err != nil {
		return nil, err
	}
	if c.useExisting() {
		c.logf("using the cluster of KUBECONFIG %s", c.existing)
		return c, c.existingHealthy(ctx)
	}
	unlock, err := c.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if running, err := c.reuse(ctx); err != nil || running {
		return c, errors.Join(err, c.sameSize(cfg.Nodes))
	}
	if err := c.prepareHost(ctx); err != nil {
		return nil, err
	}
	programs, err := c.build(ctx, append([]string{"etcd", "kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler"}, nodePrograms...)...)
	if err != nil {
		return nil, err
	}
	started := time.Now()
	if err := c.create(ctx, programs); err != nil {
		return nil, fmt.Errorf("%w\nwhat was started is left for a look at %s: run down to remove it", err, c.path("logs"))
	}
	c.stage(started, fmt.Sprintf("cluster %s is up with %d nodes", c.cfg.Name, len(c.view().Nodes)))
	return c, c.change(func(s *state) { s.Ready = true })
}

// sameSize refuses a running cluster if another number of nodes was asked for.
func (c *Cluster) sameSize(wanted int) error {
	have := len(c.view().Nodes)
	if wanted == 0 || wanted == have {
		return nil
	}
	return fmt.Errorf("cluster %s runs with %d nodes, %d are wanted: run down first, or choose another name", c.cfg.Name, have, wanted)
}

// Open finds a cluster that was started before.
func Open(cfg Config) (*Cluster, error) {
	c, err := load(kindCluster, cfg)
	if err != nil {
		return nil, err
	}
	if c.useExisting() {
		return c, nil
	}
	return open(kindCluster, cfg)
}

// DownCluster ends the cluster of that name, if there is one.
func DownCluster(ctx context.Context, cfg Config) error { return downKind(ctx, kindCluster, cfg) }

func (c *Cluster) create(ctx context.Context, programs map[string]string) error {
	if err := c.change(func(s *state) { s.Nodes = planNodes(c.cfg.Nodes) }); err != nil {
		return err
	}
	started := time.Now()
	if err := c.buildHelpers(ctx); err != nil {
		return err
	}
	c.stage(started, "helpers and the pause image")
	started = time.Now()
	if err := c.makeMachines(ctx); err != nil {
		return err
	}
	c.stage(started, "machines and network")
	ca, err := c.authority()
	if err != nil {
		return err
	}
	var runs []*nodeRun
	for _, n := range c.view().Nodes {
		run, err := c.prepareNode(ca, n, programs)
		if err != nil {
			return err
		}
		runs = append(runs, run)
	}
	return c.startAll(ctx, ca, runs, programs)
}

// startAll starts the control plane and the container runtimes side by side, and
// the kubelets when both are there.
func (c *Cluster) startAll(ctx context.Context, ca *pki.Authority, runs []*nodeRun, programs map[string]string) error {
	started := time.Now()
	steps := []func() error{func() error {
		defer c.stage(started, "control plane")
		return c.clusterControlPlane(ctx, programs)
	}}
	for _, run := range runs {
		steps = append(steps, func() error { return c.startRuntime(ctx, run) })
	}
	if err := together(steps...); err != nil {
		return err
	}
	c.stage(started, "container runtimes")
	steps = []func() error{func() error { return errors.Join(c.startManagers(ca, programs), c.startResolver(ca)) }}
	for _, run := range runs {
		steps = append(steps, func() error { return errors.Join(c.startKubelet(run), c.startProxy(run)) })
	}
	if err := together(steps...); err != nil {
		return err
	}
	return c.awaitReady(ctx)
}

func (c *Cluster) awaitReady(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	// The account is made by a controller; without it no pod can be created.
	steps := []func() error{func() error {
		return c.await(ctx, managerName, "the default service account", 60*time.Second, func() error {
			return client.Get(ctx, "/api/v1/namespaces/default/serviceaccounts/default", nil)
		})
	}}
	for _, n := range c.view().Nodes {
		steps = append(steps, func() error { return c.awaitNode(ctx, client, n) })
	}
	return together(steps...)
}

func (c *Cluster) clusterControlPlane(ctx context.Context, programs map[string]string) error {
	enter, err := c.enter(control)
	if err != nil {
		return err
	}
	plan := controlPlane{
		bind: APIServerIP, advertise: APIServerIP, hosts: []string{APIServerIP, "127.0.0.1", "localhost"},
		etcdPort: 2379, peerPort: 2380, apiPort: apiPort, enter: enter,
	}
	return c.startControlPlane(ctx, plan, programs, func() error {
		local, err := c.forward("host/api", "127.0.0.1:0", fmt.Sprintf("%s:%d", APIServerIP, apiPort))
		if err != nil {
			return err
		}
		return c.change(func(s *state) { s.Server = "https://" + local })
	})
}

func (c *Cluster) makeMachines(ctx context.Context) error {
	for _, machine := range append([]string{control}, c.NodeNames()...) {
		if err := c.makeMachine(ctx, machine); err != nil {
			return err
		}
	}
	return c.connect(ctx)
}

// buildHelpers builds the cluster's own little programs, which belong to this
// module and so are not kept by version.
func (c *Cluster) buildHelpers(ctx context.Context) error {
	store, err := components.NewStore(ctx, c.cfg.Log)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.path("bin"), 0o755); err != nil {
		return fmt.Errorf("directory of helpers: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", c.path("bin")+"/", "./test/cluster/internal/cmd/...")
	cmd.Dir = store.Root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build of the cluster's helpers: %w\n%s", err, out)
	}
	return image.Save(c.path("images", "pause.tar"), image.Spec{
		Ref: pauseRef, User: "65535", Entrypoint: []string{"/pause"},
		Files: []image.File{{Source: c.path("bin", "pause"), Path: "/pause"}},
	})
}

// together runs steps side by side and returns all their errors.
func together(steps ...func() error) error {
	errs := make([]error, len(steps))
	var group sync.WaitGroup
	for i, step := range steps {
		group.Go(func() { errs[i] = step() })
	}
	group.Wait()
	return errors.Join(errs...)
}
