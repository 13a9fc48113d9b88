// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderelect

import (
	"errors"
	"fmt"

	"leasehold.dev/internal/holder/core"
)

var (
	// ErrLost: the term ended before its function did. It could not be renewed in
	// time, or the Lease shows that it is over; the error says which. What the
	// function did meanwhile may have overlapped with the next holder's, unless
	// the resource checks the claim.
	ErrLost = errors.New("the term is lost")
	// ErrEndRequested: somebody asked the holder to stop and to release, such as a
	// roll-out. The term is valid while the function stops.
	ErrEndRequested = core.ErrEndRequested
	// ErrUnreported: the function has succeeded, and that could not be made known
	// on the Lease. The work may be done again.
	ErrUnreported = errors.New("the success could not be made known on the Lease")
	// ErrReturned: the function has returned, so nothing renews the term.
	ErrReturned = errors.New("the term's function has returned")
	// ErrRunning: Run was called while another Run of the same Elector is not over.
	ErrRunning = errors.New("leaderelect: the Elector is running")
)

// lost is the error of a term that was lost for a reason.
func lost(why error) error { return fmt.Errorf("%w: %w", ErrLost, why) }

var (
	errDeadline  = errors.New("it was not renewed in time")
	errOtherwise = errors.New("the Lease shows that it ended otherwise than by this holder's release")
	errGoexit    = errors.New("the function ended its goroutine")
)
