// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leaderelect runs a function while its process holds a lease, and gives
// it a fencing token.
//
// # Why two functions are not both trusted
//
// An Elector trusts its term until a deadline that is counted from the start of
// its last successful renewal request, never from the reply. Others count a full
// duration from when they saw the renewal, which cannot be before the request
// began. So the holder's span begins first, and it is shorter by a margin that
// covers clocks that run at different rates:
//
//	holder  |request.....reply                 |trust ends
//	        |--------- duration - margin ------|
//	Lease         |renewed
//	others           |seen                               |may take it
//	                 |------------- duration ------------|
//
// No wall clocks of two machines are compared. The function's context ends before
// the trust does, so that the function has time to return, and the lease is
// released only after it has. Any write is conditioned on the version of the
// Lease that was just judged, so that a late observer loses it to a renewal.
//
// # What this cannot do
//
// A process that is paused past its deadline can send a write when it wakes,
// before it looks at a clock. No lock prevents that. The protected resource must
// compare Term.Claim with the newest claim that it has accepted, in one step with
// the write (package fencing).
package leaderelect
