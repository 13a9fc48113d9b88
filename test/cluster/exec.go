// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// Command prepares a command on a machine of the cluster: a node, or "control". A
// command of the control machine sees the host's files and the cluster's network; it
// may listen at ServicesIP to be reached by pods. What it leaves running ends with
// the cluster.
func (c *Cluster) Command(ctx context.Context, machine string, args ...string) (*exec.Cmd, error) {
	if c.existing != "" {
		return nil, errNotOurs
	}
	if len(args) == 0 {
		return nil, errors.New("no command given")
	}
	if err := c.knownMachine(machine); err != nil {
		return nil, err
	}
	enter, err := c.enter(machine)
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, enter[0], slices.Concat(enter[1:], args)...), nil
}

// run runs a command on a machine, with that input, and returns its output.
func (c *Cluster) run(ctx context.Context, machine, input string, args ...string) (string, error) {
	cmd, err := c.Command(ctx, machine, args...)
	if err != nil {
		return "", err
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s on %s: %w: %s", strings.Join(args, " "), machine, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

func (c *Cluster) knownMachine(machine string) error {
	if machine == control {
		return nil
	}
	_, err := c.node(machine)
	return err
}

// node finds a node by name.
func (c *Cluster) node(name string) (node, error) {
	for _, n := range c.view().Nodes {
		if n.Name == name {
			return n, nil
		}
	}
	return node{}, fmt.Errorf("node %q is not known: choose one of %s", name, strings.Join(c.NodeNames(), ", "))
}

// NodeNames lists the nodes.
func (c *Cluster) NodeNames() []string {
	var names []string
	for _, n := range c.view().Nodes {
		names = append(names, n.Name)
	}
	return names
}
