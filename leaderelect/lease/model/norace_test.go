// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package model

// limit is none: every search is exhaustive.
const limit = 0
