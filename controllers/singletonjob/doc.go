// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package singletonjob makes for each SingletonJob its Lease, its pods and
// their access to the Lease, and tells in its status what became of them.
//
// Which pod holds the Lease is not decided here: the grant controller grants,
// withdraws and ends terms, and knows nothing of SingletonJobs. This package
// makes candidates, reads from the Lease what became of their terms, and keeps
// pods and Lease, by finalizers, until that is on record.
//
//	observe   job and pods from the cache, pods it lacks live; then the Lease, live
//	plan      a status and actions (package plan, pure)
//	apply     the status by compare-and-swap; then one write an action
//
// Two managers may run at once, with caches of any age:
//
//   - Pod names derive from ordinals that are reserved in the status before the
//     create, so that both make the same pod. One made from a stale view has no
//     reserved ordinal and is deleted; a gated one ran nowhere.
//   - A Lease is created closed, from live reads, and opened only after another
//     live read of the job. A job that completed meanwhile is never granted
//     again.
//   - Every other write carries the version that it was decided on. A lost race
//     is no error: the next look decides anew.
package singletonjob
