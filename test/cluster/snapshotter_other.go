// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package cluster

// snapshotterFor is of no use where no nodes run.
func snapshotterFor(string) string { return "native" }
