// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// prerequisites maps the programs of the system that a cluster needs to the
// distribution packages that have them.
var prerequisites = [][2]string{
	{"ip", "iproute2"}, {"iptables", "iptables"}, {"conntrack", "conntrack"},
	{"nsenter", "util-linux"}, {"unshare", "util-linux"},
}

// prepareHost makes sure of what the cluster needs from the machine.
func (c *Cluster) prepareHost(ctx context.Context) error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("a cluster with nodes needs Linux, this is %s: use control-plane, or set KUBECONFIG to a cluster", runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("a cluster with nodes needs root for its namespaces: use control-plane, or set KUBECONFIG to a cluster")
	}
	missing := missingPackages()
	if len(missing) == 0 {
		return nil
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil {
		return fmt.Errorf("programs of the system are missing: install the packages %s", strings.Join(missing, ", "))
	}
	c.logf("installing %s", strings.Join(missing, ", "))
	for _, args := range [][]string{{"update", "-q"}, append([]string{"install", "-q", "-y", "--no-install-recommends"}, missing...)} {
		cmd := exec.CommandContext(ctx, apt, args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("install %s: %w\n%s", strings.Join(missing, ", "), err, out)
		}
	}
	return nil
}

func missingPackages() []string {
	var missing []string
	seen := map[string]bool{}
	for _, pair := range prerequisites {
		if _, err := exec.LookPath(pair[0]); err != nil && !seen[pair[1]] {
			seen[pair[1]] = true
			missing = append(missing, pair[1])
		}
	}
	return missing
}
