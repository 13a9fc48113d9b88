// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

// CutMode says what a node is cut off from.
type CutMode string
