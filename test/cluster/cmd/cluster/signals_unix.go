// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import "syscall"

func init() {
	signals["STOP"], signals["CONT"] = syscall.SIGSTOP, syscall.SIGCONT
	signals["USR1"], signals["USR2"], signals["QUIT"] = syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGQUIT
}
