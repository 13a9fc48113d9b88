// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// SaveStore copies the data of etcd to a new directory. The API server is killed for
// the time of it, as is etcd; both run again when it returns.
func (c *Cluster) SaveStore(ctx context.Context, dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return fmt.Errorf("copy of the store: %s exists already: name a new directory", dir)
	}
	return c.whileStoreIsDown(ctx, func() error {
		if err := os.CopyFS(dir, os.DirFS(c.path("etcd"))); err != nil {
			return fmt.Errorf("copy of the store: %w", err)
		}
		return nil
	})
}

// RestoreStore puts such a copy back in the place of the data, as somebody would who
// restores a backup: all that was written since is forgotten, and the resource
// versions of then are given out a second time.
func (c *Cluster) RestoreStore(ctx context.Context, dir string) error {
	if _, err := os.Stat(dir); err != nil {
		return fmt.Errorf("copy of the store: make one with SaveStore: %w", err)
	}
	return c.whileStoreIsDown(ctx, func() error {
		if err := os.RemoveAll(c.path("etcd")); err != nil {
			return fmt.Errorf("old store: %w", err)
		}
		if err := os.CopyFS(c.path("etcd"), os.DirFS(dir)); err != nil {
			return fmt.Errorf("copy of the store: %w", err)
		}
		return os.Chmod(c.path("etcd"), 0o700)
	})
}

func (c *Cluster) whileStoreIsDown(ctx context.Context, do func() error) error {
	for _, name := range []string{apiserverName, etcdName} {
		if err := c.Stop(ctx, name); err != nil {
			return err
		}
	}
	err := do()
	for _, name := range []string{etcdName, apiserverName} {
		err = errors.Join(err, c.Start(ctx, name))
	}
	if err != nil {
		return err
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	return c.await(ctx, apiserverName, "the API server", 60*time.Second, func() error {
		return client.Get(ctx, "/readyz", nil)
	})
}
