// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
)

// Down ends the cluster and removes all that it made, and nothing else. It may be
// called again, and on a cluster that was only half made.
func (c *Cluster) Down(ctx context.Context) error {
	if c.existing != "" {
		c.logf("the cluster of KUBECONFIG %s was not started here and stays", c.existing)
		return nil
	}
	unlock, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return c.down(ctx)
}

func (c *Cluster) down(ctx context.Context) error {
	var errs []error
	if c.view().Kind == kindCluster {
		errs = append(errs, c.endContained(ctx))
	}
	for _, name := range downOrder(sortedKeys(c.view().Processes)) {
		if err := c.view().Processes[name].Terminate(ctx, 3*time.Second); err != nil {
			errs = append(errs, fmt.Errorf("end of %s: %w", name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := os.RemoveAll(c.dir); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	c.state = newState(c.view().Kind, c.view().Name)
	return nil
}

// endContained ends whatever was started within the machines of the cluster, also
// what nothing remembers: containers, their shims, and children of commands.
func (c *Cluster) endContained(ctx context.Context) error {
	if runtime.GOOS != "linux" {
		return nil
	}
	system, err := cgroups()
	if err != nil {
		return err
	}
	return system.End(ctx, c.group())
}

// downOrder ends the store last: an API server without one waits for it in vain.
func downOrder(names []string) []string {
	var order, last []string
	for _, name := range names {
		if name == etcdName {
			last = append(last, name)
		} else {
			order = append(order, name)
		}
	}
	return append(order, last...)
}

// DownControlPlane ends the control plane of that name, if there is one.
func DownControlPlane(ctx context.Context, cfg Config) error {
	return downKind(ctx, kindControlPlane, cfg)
}

func downKind(ctx context.Context, kind string, cfg Config) error {
	c, err := load(kind, cfg)
	if err != nil {
		return err
	}
	return c.Down(ctx)
}
