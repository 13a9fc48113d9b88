// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"strings"

	"leasehold.dev/test/cluster/internal/cgroup"
	"leasehold.dev/test/cluster/internal/process"
)

// Freeze stops all processes of a pod's containers, or of the named one, in the
// midst of what they do, as a machine that swaps or a hypervisor that migrates would.
// The kubelet and the node's heartbeat go on.
func (c *Cluster) Freeze(ctx context.Context, namespace, pod, container string) error {
	return c.eachGroup(ctx, namespace, pod, container, (*cgroup.System).Freeze)
}

// Thaw lets them run on, not knowing that time has passed.
func (c *Cluster) Thaw(ctx context.Context, namespace, pod, container string) error {
	return c.eachGroup(ctx, namespace, pod, container, (*cgroup.System).Thaw)
}

func (c *Cluster) eachGroup(ctx context.Context, namespace, pod, container string, do func(*cgroup.System, context.Context, string) error) error {
	found, err := c.containers(ctx, namespace, pod, container)
	if err != nil {
		return err
	}
	system, err := cgroups()
	if err != nil {
		return err
	}
	for _, one := range found {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", one.pid))
		if err != nil {
			return fmt.Errorf("container %.12s on %s: %w", one.id, one.node, err)
		}
		group, err := system.Of(string(text))
		if err != nil {
			return fmt.Errorf("container %.12s on %s: %w", one.id, one.node, err)
		}
		if err := do(system, ctx, group); err != nil {
			return fmt.Errorf("container %.12s on %s: %w", one.id, one.node, err)
		}
	}
	return nil
}

// FreezeNode stops a whole node, its kubelet and runtime too, as a paused virtual
// machine would stop. Connections to it stay open and silent.
func (c *Cluster) FreezeNode(ctx context.Context, name string) error {
	return c.nodeGroup(ctx, name, true, (*cgroup.System).Freeze)
}

// ThawNode lets the node run on. Containers that were frozen by themselves stay so.
func (c *Cluster) ThawNode(ctx context.Context, name string) error {
	return c.nodeGroup(ctx, name, false, (*cgroup.System).Thaw)
}

func (c *Cluster) nodeGroup(ctx context.Context, name string, frozen bool, do func(*cgroup.System, context.Context, string) error) error {
	if err := c.ours(name); err != nil {
		return err
	}
	system, err := cgroups()
	if err != nil {
		return err
	}
	// The group of the node's own programs comes first: a kubelet that ran on while its
	// containers stand still would see more than one of a stopped machine does.
	if err := do(system, ctx, "/"+c.group(name)); err != nil {
		return fmt.Errorf("node %s: %w", name, err)
	}
	return c.locked(ctx, func(s *state) {
		if s.Frozen[name] = frozen; !frozen {
			delete(s.Frozen, name)
		}
	})
}

// Kill signals the first process of each of a pod's containers, or of the named one.
func (c *Cluster) Kill(ctx context.Context, namespace, pod, container string, sig os.Signal) error {
	found, err := c.containers(ctx, namespace, pod, container)
	if err != nil {
		return err
	}
	for _, one := range found {
		p, err := os.FindProcess(one.pid)
		if err == nil {
			err = p.Signal(sig)
		}
		if err != nil {
			return fmt.Errorf("container %.12s on %s: %w", one.id, one.node, err)
		}
	}
	return nil
}

// Stop kills a program of the cluster at once: of a node its kubelet, while its
// containers run on; or one that is named as status shows it, such as
// control/kube-apiserver.
func (c *Cluster) Stop(ctx context.Context, name string) error {
	p, name, err := c.program(name)
	if err != nil {
		return err
	}
	if err := p.Kill(ctx); err != nil {
		return fmt.Errorf("stop of %s: %w", name, err)
	}
	return nil
}

// Start starts what Stop has stopped, the way it was started before.
func (c *Cluster) Start(ctx context.Context, name string) error {
	p, name, err := c.program(name)
	if err != nil || p.Alive() {
		return err
	}
	if strings.HasPrefix(name, "host/") || strings.HasSuffix(name, "/holder") {
		return fmt.Errorf("program %s cannot be started by itself: run down, then up", name)
	}
	started, err := process.Start(p.Spec)
	if err != nil {
		return fmt.Errorf("start of %s: %w", name, err)
	}
	return c.locked(ctx, func(s *state) { s.Processes[name] = started })
}

// Signal sends a signal to a program of the cluster, as to stand it still (SIGSTOP)
// or to let it end in order (SIGTERM).
func (c *Cluster) Signal(name string, sig os.Signal) error {
	p, name, err := c.program(name)
	if err != nil {
		return err
	}
	if err := p.Signal(sig); err != nil {
		return fmt.Errorf("signal to %s: %w", name, err)
	}
	return nil
}

func (c *Cluster) program(name string) (*process.Process, string, error) {
	if c.existing != "" {
		return nil, name, errNotOurs
	}
	if err := c.refresh(); err != nil {
		return nil, name, err
	}
	if _, err := c.node(name); err == nil {
		name = kubeletOf(name)
	}
	if p := c.process(name); p != nil {
		return p, name, nil
	}
	known := strings.Join(append(c.NodeNames(), sortedKeys(c.view().Processes)...), ", ")
	return nil, name, fmt.Errorf("program %q is not known: choose one of %s", name, known)
}

// ours makes sure that a node is one that was started here.
func (c *Cluster) ours(node string) error {
	if c.existing != "" {
		return fmt.Errorf("fault on node %s: %w", node, errNotOurs)
	}
	_, err := c.node(node)
	return err
}

// locked changes the state as it is now, which another run may have changed.
func (c *Cluster) locked(ctx context.Context, edit func(*state)) error {
	unlock, err := c.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return c.change(edit)
}
