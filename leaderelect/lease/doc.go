// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lease is the lease protocol of Leasehold: one protocol for the
// controller, the agent and the Go library, as pure functions over values. It
// does no I/O and reads no clock.
//
//	        Grant: holder, token         Confirm: nonce               Release(outcome)
//	Free ───────────────────────▶ Granted ──────────────▶ Live ─────────────────────────▶ Free, or closed
//	 ▲                               │                     │ Renew (same nonce) …
//	 │◀── Withdraw, at any moment ───┘                     │
//	 │◀──── End: lapse (unchanged for D) or proven dead ───┘   …or Grant to the next, in one write
//
//	any ── written by somebody else ──▶ Disputed ── lapse, death, Release ──▶ Free, or Grant
//
// Where nothing in the pod can confirm, the manager does (ConfirmFor), after it has
// written the token into a pod that still has its gate.
//
// # Why it is safe
//
// Every step returns a Lease that carries the UID and resourceVersion of the one
// observation that it was judged from, for an Update. The API server applies it
// only if nothing was written in between. So a step never acts on something
// that it did not see, however stale the observer: it loses the race instead.
// The age of a lease is judged for the very object whose version is written;
// age from a cache with a version from a later read would let a stalled
// observer end a term that was renewed meanwhile.
//
// Two terms are not trusted at once. A term is trusted by its holder until the
// start of its last successful renewal request plus four fifths of its
// duration (Timing). The server applied that renewal after the request began,
// an observer saw it later still and then waits for the longest duration the
// lease ever had (Observation.Lapsed), on its own monotonic clock. Wall clocks
// of two machines are never compared: renewTime only shows that something
// changed.
//
// Tokens rise. A token is at least the resourceVersion that its grant is
// conditioned on, and greater than the lease's last token. The write moves the
// version past it. Versions rise across deletion and re-creation of the Lease;
// a token above the version must be recorded by the owner first (ErrNotRecorded).
//
// At most one start of work uses a token. Work starts after the reply to
// Confirm, which writes a nonce only where none stands. An agent that was
// restarted in place, or a second one, finds another nonce: it never works
// under that token, and may end the term only if its own existence proves the
// earlier start dead (Nonce.Outlived).
//
// Free means ended by this protocol. An empty holder alone does not: a foreign
// elector's release or a hand edit leaves the recorded token unreleased, the
// Lease is Disputed, and the recorded term must still lapse, be proven dead or,
// under Forbid, never less than the latter or its holder's own Release.
//
// Work that completed does not run again. Release(Succeeded), or a death that
// shows success, closes the Lease in the write that ends the term, and closed
// Leases grant nothing. A Lease is born closed (New) until its maker has looked
// at the owner again.
//
// Package model checks all of this in every state of a small system, and that
// it would not hold if one of the rules were left out.
package lease
