// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// errNotOurs refuses what only works on a cluster that was started here.
var errNotOurs = errors.New("not available, since KUBECONFIG names a cluster that was not started here: unset KUBECONFIG to use one that is")

// Healthy asks the API server, and on a cluster also whether every node is ready.
func (c *Cluster) Healthy(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	if err := client.Get(ctx, "/readyz", nil); err != nil {
		return err
	}
	for _, n := range c.view().Nodes {
		if err := nodeReady(ctx, client, n.Name); err != nil {
			return err
		}
	}
	return nil
}

type getter interface {
	Get(ctx context.Context, path string, into any) error
}

func nodeReady(ctx context.Context, client getter, name string) error {
	var object struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := client.Get(ctx, "/api/v1/nodes/"+name, &object); err != nil {
		return err
	}
	for _, condition := range object.Status.Conditions {
		if condition.Type == "Ready" && condition.Status == "True" {
			return nil
		}
		if condition.Type == "Ready" {
			return fmt.Errorf("node %s is not ready: %s", name, condition.Message)
		}
	}
	return fmt.Errorf("node %s has not said yet whether it is ready", name)
}

// Status writes what runs, what does not, and which faults last; its error says that
// something is amiss.
func (c *Cluster) Status(ctx context.Context, w io.Writer) error {
	if c.existing != "" {
		return c.existingHealthy(ctx)
	}
	if _, err := io.WriteString(w, c.view().table()); err != nil {
		return fmt.Errorf("status: %w", err)
	}
	if err := c.Healthy(ctx); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "healthy; KUBECONFIG=%s\n", c.Kubeconfig())
	return err
}

func (s state) table() string {
	var b strings.Builder
	for _, name := range sortedKeys(s.Processes) {
		p, word := s.Processes[name], "running"
		if !p.Alive() {
			word = "NOT RUNNING"
		}
		fmt.Fprintf(&b, "%-32s %-12s pid %-8d %s\n", name, word, p.PID, p.Spec.Log)
	}
	for _, name := range sortedKeys(s.Cuts) {
		fmt.Fprintf(&b, "%-32s CUT OFF from %s\n", name, s.Cuts[name])
	}
	for _, name := range sortedKeys(s.Frozen) {
		fmt.Fprintf(&b, "%-32s FROZEN\n", name)
	}
	return b.String()
}
