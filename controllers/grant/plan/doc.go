// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what to do about one Lease, from values only: no client,
// no clock, no logging.
//
// Decide is a ladder of rules by the phase of the Lease. Its safety rests on
// how the values were read, which the caller must keep to:
//
//  1. Pods are read first (from a cache, however old), then the Lease, live.
//     A write to a pod carries the pod's version of that reading. Whoever ends
//     a term has written the old pod before the Lease; so a pod write that is
//     justified by a Lease that has ended since fails on the pod's version.
//  2. A Lease write carries the UID and version of that one live read, for
//     which Age was judged.
//  3. Actions are applied in order, and the first failure stops the rest:
//     revoke before grant.
package plan
