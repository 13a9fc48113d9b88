// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent

// Origin is origin, for tests that play an earlier start.
var Origin = origin
