// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// container is one running container, as its node's runtime knows it.
type container struct {
	node, id string
	pid      int
}

// containers finds the running containers of a pod, or the named one. It asks the
// runtimes and not the API server, which may be cut off, stopped or out of date.
func (c *Cluster) containers(ctx context.Context, namespace, pod, name string) ([]container, error) {
	if c.existing != "" {
		return nil, errNotOurs
	}
	programs, err := c.build(ctx, "ctr")
	if err != nil {
		return nil, err
	}
	var found []container
	for _, n := range c.view().Nodes {
		if c.view().Frozen[n.Name] {
			continue // its runtime could not answer
		}
		some, err := c.containersOn(ctx, n.Name, programs["ctr"], containerFilter(namespace, pod, name))
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no running container of %s: see kubectl describe", strings.Trim(namespace+"/"+pod+"/"+name, "/"))
	}
	return found, nil
}

// containerFilter leaves out sandboxes, which have the pod's labels too.
func containerFilter(namespace, pod, name string) string {
	labels := [][2]string{
		{"io.cri-containerd.kind", "container"},
		{"io.kubernetes.pod.namespace", namespace},
		{"io.kubernetes.pod.name", pod},
	}
	if name != "" {
		labels = append(labels, [2]string{"io.kubernetes.container.name", name})
	}
	var terms []string
	for _, label := range labels {
		terms = append(terms, fmt.Sprintf("labels.%q==%q", label[0], label[1]))
	}
	return strings.Join(terms, ",")
}

func (c *Cluster) containersOn(ctx context.Context, node, ctr, filter string) ([]container, error) {
	ids, err := c.run(ctx, node, "", ctr, "--namespace", "k8s.io", "containers", "list", "--quiet", filter)
	if err != nil || strings.TrimSpace(ids) == "" {
		return nil, err
	}
	tasks, err := c.run(ctx, node, "", ctr, "--namespace", "k8s.io", "tasks", "list")
	if err != nil {
		return nil, err
	}
	pids := runningTasks(tasks)
	var found []container
	for _, id := range strings.Fields(ids) {
		if pid := pids[id]; pid > 0 {
			found = append(found, container{node: node, id: id, pid: pid})
		}
	}
	return found, nil
}

// runningTasks reads the runtime's table of tasks: name, process, state.
func runningTasks(table string) map[string]int {
	pids := map[string]int{}
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[2] == "STOPPED" {
			continue
		}
		if pid, err := strconv.Atoi(fields[1]); err == nil {
			pids[fields[0]] = pid
		}
	}
	return pids
}
