// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package core is the decisions of a holder, the agent's and the Go library's: a
// state machine that is told what
// happened and when, and answers with what to do. It does no I/O and reads no
// clock, so that a test or a simulator can drive it through every interleaving.
//
//	wait ──grant seen──▶ take up ──Confirm's reply──▶ hold ──work ended, nothing left──▶ release ──▶ exit
//	 ▲                      │                          │ renew …                           │
//	 └──── withdrawn ───────┘                          └─ lost, signal, end request: stop  │
//	 └──────────────────────────── the end was requested: the next term ───────────────────┘
//
// Each step first looks at the deadlines, then takes in the event, then decides
// from what is known now, not from what just changed: an event that comes twice,
// late or never leads to the same decisions.
//
// A machine that competes (Compete) takes the Lease itself instead of waiting for
// a grant: when it is released, or when it was seen unchanged for long enough.
// Take grants and confirms at once; all that follows is the same.
//
// # What it keeps to
//
// Work starts only after the reply to a Confirm (or to a repetition of it)
// whose request began less than Timing.Stop ago. Trust counts from the start of
// the last request that is known to have succeeded. Once a deadline has passed
// the term is lost for good; no later reply revives it. Nothing is released
// before everything of the work is gone. Status 0 is given only when the Lease
// is known to show this term released with the work's outcome.
package core
