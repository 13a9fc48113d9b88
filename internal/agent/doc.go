// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package agent holds a lease on behalf of a command: "agent run -- command"
// waits until the lease is granted to this pod, confirms the grant, runs the
// command, renews, and stops the command before the term can no longer be
// trusted. It releases the term after everything of the command has ended.
//
//	core    decides: a state machine without I/O
//	leases  talks to the API server about the one Lease
//	work    starts, signals, kills and reaps the command
//	clock   wakes at deadlines, through suspend
//
// This package connects them: a driver that carries out what core decides, and
// a guard that kills the work at the deadline without asking anybody.
package agent
