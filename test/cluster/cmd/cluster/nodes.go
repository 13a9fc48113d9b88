// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"leasehold.dev/test/cluster"
	"leasehold.dev/test/cluster/smoke"
)

func up(ctx context.Context, env *environment, args []string) error {
	o := newOptions(env, "up")
	o.set.IntVar(&o.Nodes, "nodes", 0, "how many nodes (default 2)")
	if _, err := o.parse(args, 0, 0); err != nil {
		return err
	}
	c, err := cluster.Up(ctx, o.Config)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.stdout, "export KUBECONFIG=%s\n", c.Kubeconfig())
	return err
}

func down(ctx context.Context, env *environment, args []string) error {
	o := newOptions(env, "down")
	if _, err := o.parse(args, 0, 0); err != nil {
		return err
	}
	return cluster.DownCluster(ctx, o.Config)
}

func status(ctx context.Context, env *environment, args []string) error {
	c, _, err := opened(env, "status", args, 0, 0)
	if err != nil {
		return err
	}
	return c.Status(ctx, env.stdout)
}

func smokeTest(ctx context.Context, env *environment, args []string) error {
	c, _, err := opened(env, "smoke", args, 0, 0)
	if err != nil {
		return err
	}
	return smoke.Run(ctx, c, env.stdout)
}

func kubeconfig(_ context.Context, env *environment, args []string) error {
	c, _, err := opened(env, "kubeconfig", args, 0, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(env.stdout, c.Kubeconfig())
	return err
}

// opened parses the command line of a command that works on a running cluster.
func opened(env *environment, name string, args []string, least, most int) (*cluster.Cluster, []string, error) {
	o := newOptions(env, name)
	operands, err := o.parse(args, least, most)
	if err != nil {
		return nil, nil, err
	}
	c, err := cluster.Open(o.Config)
	return c, operands, err
}
