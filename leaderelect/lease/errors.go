// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed: the Lease is closed; nothing is granted on it.
	ErrClosed = errors.New("lease is closed")
	// ErrHeld: another term may still be trusted; what was offered as a basis
	// does not prove otherwise.
	ErrHeld = errors.New("another term may still be trusted")
	// ErrNoToken: no token can be minted.
	ErrNoToken = errors.New("no token can be minted")
	// ErrNotRecorded: the token is above the resourceVersion and must be
	// recorded by the owner first. Try again when it is.
	ErrNotRecorded = errors.New("the token is not recorded by the lease's owner yet")
	// ErrUnmanaged: the Lease is not one that Leasehold manages.
	ErrUnmanaged = errors.New("lease is not managed by Leasehold")
	// ErrManaged: the Lease is granted by Leasehold's manager; candidates do not
	// take it themselves.
	ErrManaged = errors.New("lease is granted by Leasehold's manager")
	// ErrEnded: the Lease shows that the caller's term is over, or never was:
	// another holder or token, a release, or no Lease. Stop the work.
	ErrEnded = errors.New("the term has ended")
	// ErrNotLive: the step needs a confirmed term.
	ErrNotLive = errors.New("the term is not confirmed")
	// ErrStarted: the term is confirmed; work may be running, so it cannot be
	// withdrawn.
	ErrStarted = errors.New("the term is confirmed")
)

// OtherStartError says that the term was confirmed by another start under the
// same holder name: the container was restarted in place, or a second agent
// was started beside the first.
type OtherStartError struct {
	// Nonce is the other start's.
	Nonce string
}

func (e *OtherStartError) Error() string {
	return fmt.Sprintf("the term was started by another process of this pod (nonce %s)", e.Nonce)
}
