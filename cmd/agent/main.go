// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// The agent is the parent of a singleton's command: see package agent.
package main

import (
	"context"
	"os"

	"leasehold.dev/internal/agent"
)

func main() {
	os.Exit(agent.Main(context.Background(), os.Args[1:]))
}
