// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package process

import "syscall"

const gentle = syscall.SIGTERM

// detached gives the program a session of its own, so that it outlives ours.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
