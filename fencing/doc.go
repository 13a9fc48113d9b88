// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fencing lets a protected resource refuse a writer whose lease has
// passed to another.
//
// # Why a lock is not enough
//
// A holder that is paused past the end of its lease does not know it: it wakes
// up between its last check and its write, and writes. No check on the
// holder's side closes that gap. The resource closes it, by comparing a number
// that only grows, the fencing token, in the same atomic step as the write.
//
// # The three steps of a holder
//
// A resource keeps a [Mark]: the newest (issuer, token, holder) that it
// accepted. A holder presents its [Claim] to it, in this order:
//
//	raise ───▶ read ───▶ write, write, …
//
// Each step has its reason:
//
//   - Raise moves the mark up to the claim, once for each term and each
//     resource. From its return on, no older claim can write.
//   - Read the state only then. What an older holder wrote before the raise is
//     part of that state; nothing that it tries later will be. A holder that
//     reads first may act on a state that the older one is still changing.
//   - Write, each time with the claim, and each time with a comparison in the
//     store's own atomic terms: a write is accepted if and only if the mark
//     equals the claim.
//
// Safety needs one fact only, that tokens of one issuer grow with every grant;
// [DecideRaise] and [DecideWrite] are the whole rule. Two holders with the same
// token, which a restored token source can issue, are told apart by the
// holder, and a claim of another issuer is refused until an operator adopts
// it, since tokens of two issuers cannot be compared.
//
// # A missing mark refuses
//
// A resource without a mark answers [ErrNotArmed] and is never taken for one
// at zero: a mark that was deleted, expired or lost in a fail-over would
// otherwise let every stale writer in. Arm is a separate act, done once by
// whoever sets the resource up, and a mark is never deleted or expired with
// the data it guards.
//
// # What an error asks for
//
//	ErrFenced     a newer holder is there           stop the work for good
//	ErrNotRaised  the mark is older than the claim  stop writing; raise, read, go on
//	ErrBehind     fenced, though the lease is ours  stop writing and report it
//	ErrForeign    the mark is of another issuer     an operator adopts, or not
//	ErrNotArmed   there is no mark                  an operator arms the resource
//	ErrRetry      not done, and the cause may pass  do all of it again, the check too
//	ErrUnknown    done or not, the reply was lost   read back by nonce, then decide
//
// An error of the store that is none of these is returned as it is: the write
// was not done, and doing it again would not help.
//
// # Lost replies
//
// A reply can be lost after the store has committed. Let each write carry a
// nonce that is stored with the data (crypto/rand.Text makes good ones) and,
// where the store can, is a unique key there. After [ErrUnknown], look for it;
// not finding it proves little while the first attempt may still be under way,
// so repeat the write with the same nonce, and let the key refuse the second of
// two. Fencing does not see such a repetition: both are by the rightful holder.
//
// # What fencing does not give
//
//   - A write that was accepted just before the raise stands. It comes before
//     the new holder in the order of things, and the new holder reads it.
//   - Effects outside the resource (a mail, a payment) are not covered. Use an
//     idempotency key made from what is to be done (the job and its scheduled
//     time), never from the token: a token in that key makes a duplicate of
//     every task that two holders both try.
//   - A write that goes round the guard is not seen by it.
//   - One mark guards one resource. With a mark for each row or object, rows
//     that the new holder has not touched yet still accept the old one.
package fencing
