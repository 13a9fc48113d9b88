// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// ImportImages brings image archives to every node. Pods must name them with a pull
// policy of Never or IfNotPresent, for there is no registry.
func (c *Cluster) ImportImages(ctx context.Context, archives ...string) error {
	if c.existing != "" {
		return fmt.Errorf("import of images: %w", errNotOurs)
	}
	programs, err := c.build(ctx, "ctr")
	if err != nil {
		return err
	}
	var steps []func() error
	for _, name := range c.NodeNames() {
		steps = append(steps, func() error {
			for _, archive := range archives {
				if err := c.importImage(ctx, name, programs["ctr"], archive); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return together(steps...)
}

// importImage hands the archive over as input, since the node has a /tmp of its own
// and may not see the file.
func (c *Cluster) importImage(ctx context.Context, node, ctr, archive string) error {
	file, err := os.Open(archive)
	if err != nil {
		return fmt.Errorf("image archive: %w", err)
	}
	defer func() { _ = file.Close() }()
	cmd, err := c.Command(ctx, node, ctr, "--namespace", "k8s.io", "images", "import", "-")
	if err != nil {
		return err
	}
	var output bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = file, &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("import of %s to %s: %w: %s", filepath.Base(archive), node, err, output.String())
	}
	return nil
}
