// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

// Package flock lets one process at a time do a piece of work, also across clones.
package flock

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"leasehold.dev/test/cluster/internal/wait"
)

// Lock creates the lock file of that name, waiting until nobody else's is there.
// The function busy is called once if the lock is taken.
func Lock(ctx context.Context, name string, busy func()) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, fmt.Errorf("directory of lock file: %w", err)
	}
	told := false
	err = wait.For(ctx, "lock "+name+" (remove it if its owner is gone)", func() error {
		file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil && !told {
			told = true
			busy()
		}
		if err != nil {
			return err
		}
		return file.Close()
	})
	if err != nil {
		return nil, err
	}
	return func() { _ = os.Remove(name) }, nil
}
