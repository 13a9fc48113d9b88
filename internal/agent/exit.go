// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package agent

import (
	"leasehold.dev/internal/agent/work"
	"leasehold.dev/internal/holder/core"
)

// Exit statuses of "agent run". The command's own status is passed on, and
// 128+n when signal n killed it, so a command should avoid the ones below. A
// status of 0 means that the command ended with 0 and that the Lease is known to
// say so, or that the Lease says the work was already done.
const (
	// ExitUsage: the command line or the environment is not usable.
	ExitUsage = 64
	// ExitNoAPI: there is no configuration for an API server, or the command
	// ended with 0 but that could not be made known before giving up.
	ExitNoAPI = core.CodeNoAPI
	// ExitInternal: the operating system refused something the agent needs.
	ExitInternal = 71
	// ExitLost: the term ended before the command did, which was therefore
	// stopped; or the command ended with 0 and the term had ended otherwise.
	ExitLost = core.CodeLost
	// ExitNotExecutable: the command exists and cannot be executed.
	ExitNotExecutable = work.CodeNotExecutable
	// ExitNotFound: there is no such command.
	ExitNotFound = work.CodeNotFound
	// ExitSignal plus n: signal n killed the command, or told the agent to stop
	// before a command was started.
	ExitSignal = 128
)
