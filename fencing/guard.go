// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing

import "context"

// Guard keeps the mark of one resource in the store that holds the resource.
// Each adapter adds its own way to make a write conditional on a claim, in the
// store's atomic terms.
//
// Every method is one atomic step in the store, and every failure has one of
// this package's classes or is the store's own error. All of them can be
// repeated after a lost reply, which is therefore ErrRetry, not ErrUnknown.
type Guard interface {
	// Arm gives the resource a mark of the issuer at token 0, if it has none:
	// a privileged act, done once when the resource is set up. A mark that is
	// there already is left alone; that of another issuer is ErrForeign.
	Arm(ctx context.Context, issuer string) error

	// Raise moves the mark up to the claim, as DecideRaise allows. When it has
	// returned nil no older claim can write any more, and every write of an
	// older one that was accepted is visible: read the state now.
	Raise(ctx context.Context, claim Claim) error

	// Read returns the mark, or ErrNotArmed.
	Read(ctx context.Context) (Mark, error)

	// Adopt hands the resource from one issuer to another: a privileged act,
	// for a workload that moved between clusters. No holder of the old issuer
	// can write from then on, and none of the new one before it has raised. An
	// issuer that had the resource before is held to its old token. A mark of
	// a third issuer is ErrForeign; one of toIssuer is left alone.
	Adopt(ctx context.Context, fromIssuer, toIssuer string) error
}
