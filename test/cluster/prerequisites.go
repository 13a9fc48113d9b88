// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"leasehold.dev/test/cluster/internal/components"
)

// prerequisite is something of the system that a cluster needs: the command that
// succeeds where it is there, and the distribution package that has it.
type prerequisite struct {
	test []string
	pkg  string
}

// runPrerequisites are needed by running nodes.
var runPrerequisites = []prerequisite{
	{[]string{"ip", "-V"}, "iproute2"},
	{[]string{"iptables", "--version"}, "iptables"},
	{[]string{"conntrack", "--version"}, "conntrack"},
	{[]string{"nsenter", "--version"}, "util-linux"},
	{[]string{"unshare", "--version"}, "util-linux"},
}

// buildPrerequisites are needed by building runc, the one program with parts in C.
var buildPrerequisites = []prerequisite{
	{[]string{"gcc", "--version"}, "gcc"},
	{[]string{"pkg-config", "--version"}, "pkg-config"},
	{[]string{"pkg-config", "--exists", "libseccomp"}, "libseccomp-dev"},
}

// prepareHost makes sure of what the cluster needs from the machine.
func (c *Cluster) prepareHost(ctx context.Context) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("a cluster with nodes needs Linux, this is %s: use control-plane, or set KUBECONFIG to a cluster", runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return errors.New("a cluster with nodes needs root for its namespaces: use control-plane, or set KUBECONFIG to a cluster")
	}
	store, err := components.NewStore(ctx, c.cfg.Log)
	if err != nil {
		return err
	}
	wanted := runPrerequisites
	if built, err := store.Cached("runc"); err != nil {
		return err
	} else if !built {
		wanted = slices.Concat(runPrerequisites, buildPrerequisites)
	}
	if missing := missingPackages(ctx, wanted); len(missing) > 0 {
		return c.install(ctx, missing)
	}
	return nil
}

func missingPackages(ctx context.Context, wanted []prerequisite) []string {
	var missing []string
	for _, one := range wanted {
		if exec.CommandContext(ctx, one.test[0], one.test[1:]...).Run() != nil && !slices.Contains(missing, one.pkg) {
			missing = append(missing, one.pkg)
		}
	}
	return missing
}

// install uses the distribution's own client where there is one that is known here.
func (c *Cluster) install(ctx context.Context, packages []string) error {
	names := strings.Join(packages, " ")
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return fmt.Errorf("programs of the system are missing: install what your distribution has for %s", names)
	}
	c.logf("installing %s", names)
	for _, args := range [][]string{{"update", "-q"}, append([]string{"install", "-q", "-y", "--no-install-recommends"}, packages...)} {
		cmd := exec.CommandContext(ctx, apt, args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("install %s: %w\n%s", names, err, out)
		}
	}
	return nil
}
