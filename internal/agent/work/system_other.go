// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package work

import (
	"errors"
	"syscall"
)

// adoptOrphans does nothing: this system gives orphans to its first process, so
// only the process group is held together.
func adoptOrphans() error { return nil }

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// left reports whether the process group has members.
func left(group int) bool { return !errors.Is(syscall.Kill(-group, 0), syscall.ESRCH) }

func killDescendants() {}
