// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package flock lets one process at a time do a piece of work, also across clones.
package flock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"leasehold.dev/test/cluster/internal/wait"
)

// Lock takes the lock file of that name, waiting for whoever has it. The kernel
// lets go of it when its holder dies, so a crash leaves nothing to clean up.
// The function busy is called once if the lock is taken.
func Lock(ctx context.Context, name string, busy func()) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, fmt.Errorf("directory of lock file: %w", err)
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock file: %w", err)
	}
	told := false
	err = wait.For(ctx, "lock "+name, func() error {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EWOULDBLOCK) && !told {
			told = true
			busy()
		}
		return err
	})
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return func() { _ = file.Close() }, nil
}
