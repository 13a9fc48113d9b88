// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"leasehold.dev/test/cluster/internal/cgroup"
	"leasehold.dev/test/cluster/internal/process"
	"leasehold.dev/test/cluster/internal/wait"
)

// control is the machine of the control plane: a network namespace only, since its
// programs leave nothing outside of the state directory.
const control = "control"

func holderOf(machine string) string { return machine + "/holder" }

// group names the control group of a machine's part; all lie below that of the cluster.
func (c *Cluster) group(parts ...string) string {
	return filepath.Join(append([]string{"leasehold-" + c.cfg.Name}, parts...)...)
}

func cgroups() (*cgroup.System, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("mounted control groups: %w", err)
	}
	return cgroup.Detect(string(mounts))
}

// joining is a command that joins a group in every hierarchy and then becomes the
// command that is appended to it.
func joining(group string) ([]string, error) {
	system, err := cgroups()
	if err != nil {
		return nil, err
	}
	joins, err := system.Make(group)
	if err != nil {
		return nil, err
	}
	const script = `while [ "$1" != -- ]; do echo $$ > "$1" || exit 1; shift; done; shift; exec "$@"`
	return append(append([]string{"sh", "-c", script, "sh"}, joins...), "--"), nil
}

// enter is a command that moves into a machine and then becomes the command that is
// appended to it, under the same process number.
func (c *Cluster) enter(machine string) ([]string, error) {
	holder := c.process(holderOf(machine))
	if !holder.Alive() {
		return nil, fmt.Errorf("machine %s of cluster %s: %w", machine, c.cfg.Name, ErrNotRunning)
	}
	command, err := joining(c.group(machine, "system"))
	if err != nil {
		return nil, err
	}
	command = append(command, "nsenter", "--target", strconv.Itoa(holder.PID), "--net")
	if machine != control {
		command = append(command, "--mount", "--cgroup")
	}
	return append(command, "--"), nil
}

// makeMachine makes the namespaces of a machine and a process that keeps them.
func (c *Cluster) makeMachine(ctx context.Context, machine string) error {
	// The group joined here becomes the root of the machine's own view of groups.
	command, err := joining(c.group(machine))
	if err != nil {
		return err
	}
	command = append(command, "unshare", "--net")
	ready := c.path(machine, "ready")
	args := []string{"-ready", ready}
	if machine != control {
		command = append(command, "--mount", "--cgroup")
		args = append(args, "-data", c.path(machine, "data"),
			"-keep", filepath.Dir(c.dir), "-group", c.group(machine))
	}
	if err := os.MkdirAll(c.path(machine), 0o755); err != nil {
		return fmt.Errorf("directory of %s: %w", machine, err)
	}
	if err := os.Remove(ready); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("machine %s: %w", machine, err)
	}
	if err := c.start(holderOf(machine), process.Spec{Path: c.path("bin", "holder"), Args: args, Enter: append(command, "--")}); err != nil {
		return err
	}
	err = wait.Within(ctx, 10*time.Second, "namespaces of "+machine, func() error {
		if err := c.process(holderOf(machine)).Check(); err != nil {
			return err
		}
		_, err := os.Stat(ready)
		return err
	})
	if err != nil {
		return err
	}
	system, err := cgroups()
	if err != nil {
		return err
	}
	// Version 2 has processes in the leaves only.
	return system.Join(c.group(machine, "system"), c.process(holderOf(machine)).PID)
}
