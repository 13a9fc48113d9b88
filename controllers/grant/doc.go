// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package grant is the controller of the lower layer: it grants managed Leases
// to candidate pods, stamps tokens into them, and ends terms whose holders
// lapsed or are proven dead. It is keyed by Lease and knows nothing of what
// made the Lease or the pods.
//
// It reads the Lease live and the pods from the cache, in the order that
// package plan demands, and applies the plan's actions in order. Any number of
// instances may run at once: each write is a compare-and-swap on what the
// instance saw.
package grant
