// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// useExisting tells whether KUBECONFIG names a cluster that was not started here.
// One that was, as after eval of what up prints, does not count, whatever its name.
func (c *Cluster) useExisting() bool {
	named := os.Getenv("KUBECONFIG")
	if named == "" {
		return false
	}
	if absolute, err := filepath.Abs(named); err == nil && filepath.Dir(filepath.Dir(absolute)) == filepath.Dir(c.dir) {
		return false
	}
	c.existing = named
	return true
}

// existingHealthy asks the API server of somebody else's cluster, with kubectl,
// since a kubeconfig may sign in by ways that only it knows.
func (c *Cluster) existingHealthy(ctx context.Context) error {
	if !anyFile(filepath.SplitList(c.existing)) {
		return fmt.Errorf("KUBECONFIG names %s, which does not exist: unset it to use a cluster that is started here", c.existing)
	}
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		if kubectl, err = Tool(ctx, c.cfg.Log, "kubectl"); err != nil {
			return err
		}
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, kubectl, "--request-timeout=10s", "get", "--raw", "/readyz")
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cluster of KUBECONFIG %s does not answer: %w: %s", c.existing, err, stderr.String())
	}
	c.logf("the cluster of KUBECONFIG %s answers", c.existing)
	return nil
}

func anyFile(names []string) bool {
	for _, name := range names {
		if _, err := os.Stat(name); err == nil {
			return true
		}
	}
	return false
}
