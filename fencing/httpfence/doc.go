// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package httpfence carries claims over HTTP, from a holder to a service that
// keeps the protected data.
//
// # How it works
//
// The client presents its claim with every request, in three header fields:
//
//	Fencing-Issuer: 0f8fad5b-d9cb-469f-a165-70867728950e/shop/orders
//	Fencing-Token: 42
//	Fencing-Holder: orders-0_7c9e6679-7425-40de-944b-e07fc1f90ae7
//
// HTTP has no atomic step with the service's storage, so the middleware decides
// nothing. It reads the claim, refuses a request that has none, and hands the
// claim to the handler, which makes its storage transaction conditional on it, by
// the guard of that storage ([leasehold.dev/fencing/postgres] and the others).
// What the guard refuses goes back as a problem (RFC 9457) that the client turns
// into the same error again. So the chain is as safe as the guard at its end.
//
//	Status                     Problem      Error at the client
//	428 Precondition Required  no-claim     fencing.ErrNoClaim
//	400 Bad Request            malformed    fencing.ErrInvalidClaim
//	412 Precondition Failed    fenced       fencing.ErrFenced
//	412 Precondition Failed    foreign      fencing.ErrForeign
//	409 Conflict               not-raised   fencing.ErrNotRaised
//	409 Conflict               not-armed    fencing.ErrNotArmed
//	503 Service Unavailable    retry        fencing.ErrRetry
//	504 Gateway Timeout        unknown      fencing.ErrUnknown
//	500 Internal Server Error  failed       none of these; nothing was done
//	any other 5xx                           fencing.ErrUnknown, since it may come from a gateway
//
// Statuses that make clients log in again or slow down (401, 403, 429) are not
// used. A gateway that drops fields it does not know makes every request 428,
// which is loud and safe.
//
// # What looks alike and is not a fence
//
//   - A middleware that compares the token with the mark and then calls the
//     handler: the mark may be raised in between.
//   - The highest token that the process has seen: every replica of the service
//     has another one, and a restart forgets it.
//   - If-Match alone: a stale holder that reads again has the newest ETag.
//   - To let a request without a claim pass.
//
// The tests of this package show each of them letting a stale write in.
//
// # Traps
//
//   - A handler that hands work to a queue must put the claim into the message
//     (fencing.Claim is plain data) and make the write conditional where it is
//     done, not where it is accepted.
//   - A handler that does not use its claim is not fenced. Nothing in HTTP can
//     tell.
//   - The service believes what the fields say. Whoever may call it can name any
//     token, so authenticate callers as before.
package httpfence
