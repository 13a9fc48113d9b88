// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"context"
	"errors"
	"fmt"
)

// The classes of refusals and failures. Every error of a guard matches at most
// one of them with errors.Is; each has a type of its own, for errors.As, that
// carries the claim and, where there is one, the mark that refused it.
var (
	// ErrFenced: a newer holder has raised the mark, or another holder has the
	// same token. Final. Stop the work.
	ErrFenced = errors.New("fenced")
	// ErrNotRaised: the mark is older than the claim. Nobody newer is there,
	// but this holder has not raised the mark, or the store has lost the raise
	// (a fail-over, a restored backup). Raise, read the state anew, go on.
	ErrNotRaised = errors.New("mark not raised")
	// ErrBehind: the claim was refused as older than the mark although its
	// holder has the lease now, so the token source has gone back. Stop writing
	// and report it: the lease needs a grant above the mark. See ConfirmBehind.
	ErrBehind = errors.New("token behind the mark")
	// ErrForeign: the mark belongs to another issuer. An operator decides
	// whether this one takes the resource over (Guard.Adopt).
	ErrForeign = errors.New("mark of another issuer")
	// ErrNotArmed: there is no mark. An operator arms the resource
	// (Guard.Arm), after making sure that none was lost.
	ErrNotArmed = errors.New("resource not armed")
	// ErrRetry: nothing was done, for a cause that may pass (a conflict, a
	// deadlock, an unreachable store). Do all of it again, the check too.
	ErrRetry = errors.New("not done, try again")
	// ErrUnknown: the reply was lost; it was done or it was not. Read back by
	// nonce before doing it again.
	ErrUnknown = errors.New("outcome unknown")
)

// FencedError is the type of ErrFenced.
type FencedError struct {
	Mine   Claim
	Newest Mark
}

// Collision tells whether the mark has the claim's token with another holder:
// the issuer has granted one token twice, as a restored one does.
func (e *FencedError) Collision() bool {
	return e.Mine.Token == e.Newest.Token && e.Newest.Holder != ""
}

func (e *FencedError) Error() string {
	if e.Collision() {
		return fmt.Sprintf("%v: the mark is %v, and mine is the same token of %q: it was granted twice; stop this holder",
			ErrFenced, e.Newest, e.Mine.Holder)
	}
	return fmt.Sprintf("%v: the mark is %v, and mine, %v, is not above it; stop this holder", ErrFenced, e.Newest, e.Mine)
}

// Is matches ErrFenced.
func (e *FencedError) Is(target error) bool { return target == ErrFenced }

// NotRaisedError is the type of ErrNotRaised.
type NotRaisedError struct {
	Mine   Claim
	Newest Mark
}

func (e *NotRaisedError) Error() string {
	return fmt.Sprintf("%v: the mark is %v, older than my %v; raise it, then read the state anew, then write",
		ErrNotRaised, e.Newest, e.Mine)
}

// Is matches ErrNotRaised.
func (e *NotRaisedError) Is(target error) bool { return target == ErrNotRaised }

// BehindError is the type of ErrBehind.
type BehindError struct {
	Mine   Claim
	Newest Mark
}

func (e *BehindError) Error() string {
	return fmt.Sprintf("%v: the mark is %v, and mine is %v though the lease is held: the issuer's tokens have gone back; "+
		"stop writing and report it, so that the lease is granted above the mark", ErrBehind, e.Newest, e.Mine)
}

// Is matches ErrBehind.
func (e *BehindError) Is(target error) bool { return target == ErrBehind }

// ForeignError is the type of ErrForeign. For Arm and Adopt, Mine has only the
// issuer.
type ForeignError struct {
	Mine   Claim
	Newest Mark
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%v: the mark is %v, and mine is of issuer %s; if that one now owns the resource, let an operator adopt it",
		ErrForeign, e.Newest, e.Mine.Issuer)
}

// Is matches ErrForeign.
func (e *ForeignError) Is(target error) bool { return target == ErrForeign }

// NotArmedError is the type of ErrNotArmed.
type NotArmedError struct {
	Mine Claim
}

func (e *NotArmedError) Error() string {
	return fmt.Sprintf("%v: it has no mark, so every claim is refused; if none was lost, let an operator arm it", ErrNotArmed)
}

// Is matches ErrNotArmed.
func (e *NotArmedError) Is(target error) bool { return target == ErrNotArmed }

// RetryError is the type of ErrRetry.
type RetryError struct {
	Mine Claim
	// Err is what the store said, or what happened on the way to it.
	Err error
}

func (e *RetryError) Error() string {
	return fmt.Sprintf("%v, with the check of the claim: %v", ErrRetry, e.Err)
}

// Is matches ErrRetry.
func (e *RetryError) Is(target error) bool { return target == ErrRetry }

func (e *RetryError) Unwrap() error { return e.Err }

// UnknownError is the type of ErrUnknown.
type UnknownError struct {
	Mine Claim
	// Err is how the reply was lost.
	Err error
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("%v: the write may have been done; read it back by its nonce before repeating it: %v", ErrUnknown, e.Err)
}

// Is matches ErrUnknown.
func (e *UnknownError) Is(target error) bool { return target == ErrUnknown }

func (e *UnknownError) Unwrap() error { return e.Err }

// ConfirmBehind turns a refusal that matches ErrFenced into one that matches
// ErrBehind if renew, called now and thus after the refusal, renews the lease:
// a holder that still has the lease and yet meets a newer mark is not stale,
// its token source has gone back. A renewal from before the refusal proves
// nothing, since the lease may have moved in between.
//
// Any other error, and a refusal whose renewal fails, is returned unchanged.
func ConfirmBehind(ctx context.Context, refusal error, renew func(context.Context) error) error {
	fenced, ok := errors.AsType[*FencedError](refusal)
	if !ok || renew(ctx) != nil {
		return refusal
	}
	return &BehindError{Mine: fenced.Mine, Newest: fenced.Newest}
}
