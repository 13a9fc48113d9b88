// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what to do about one Lease, from values only: no client,
// no clock, no logging.
//
// Decide is a ladder of rules by the phase of the Lease. Its safety rests on
// how the values were read, which the caller must keep to:
//
//  1. Pods are read first (from a cache, however old), then the Lease, live.
//     A write to a pod carries the pod's version of that reading.
//  2. A Lease write carries the UID and version of that one live read, for
//     which Age was judged.
//  3. Actions are applied in order, and the first failure stops the rest:
//     revoke before grant.
//
// Why no stamp lands after its term has ended. Whoever ends a term from outside
// first marks the pod with the ended token (MarkEnded), then writes the Lease.
// Take a stamp that is justified by a Lease read before that write:
//
//	            pod read        Lease read, open             stamp
//	stamper ───────┬──────────────────┬────────────────────────┬──────▶
//	ender   ──────────── mark ──────────────── Lease: ended ──────────▶
//
// If its pod was read before the mark, its version is old, and the stamp fails.
// If it was read after the mark, it carries the ended token, and a pod that
// does is never stamped with that token. The mark stays, so it does not matter
// that the ender's Lease write may have failed, nor how often it is retried. A
// grant that can so no longer be stamped is withdrawn.
//
// A mark says nothing about later terms: the pod may be granted again, with a
// higher token, after those that never lost a term.
package plan
