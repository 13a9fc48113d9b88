// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package model

// limit ends a search early: the race detector makes each state many times as
// dear, and finds nothing in a search that shares nothing.
const limit = 60_000
