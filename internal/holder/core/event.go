// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"leasehold.dev/internal/holder/clock"
)

// Event is something that happened.
type Event interface{ event() }

// Seen is a look at the Lease that no request of the machine asked for.
type Seen struct {
	// Lease as seen; nil: there is none.
	Lease *coordinationv1.Lease
	// Version is the resourceVersion of the deletion that a watch reported.
	Version string
	// Live says that the API server was asked for its newest state at Asked. A
	// live read that is older than what was known by then comes from a restored
	// store; a watch event may well be older.
	Live  bool
	Asked clock.Instant
}

// Reply is the end of the request that Send asked for.
type Reply struct {
	// Lease is the object in the reply, where Failure is None.
	Lease   *coordinationv1.Lease
	Failure Failure
	// Err says more, for the log.
	Err error
}

// Signal is a signal that the agent got.
type Signal struct{ Number syscall.Signal }

// Started is the end of starting the command.
type Started struct {
	// Err: the command could not be started; Code is the exit status for it.
	Err  error
	Code int
}

// Ended says that the command has ended; processes that it left may still run.
type Ended struct {
	// Code is its exit status, or 128+n for death by signal n.
	Code int
}

// Gone says that nothing of the work is left.
type Gone struct{}

// Measured is what the work's critical sections took, to go out with the next
// renewal.
type Measured struct{ P99 time.Duration }

// Tick is the passing of time.
type Tick struct{}

func (Seen) event()     {}
func (Reply) event()    {}
func (Signal) event()   {}
func (Started) event()  {}
func (Ended) event()    {}
func (Gone) event()     {}
func (Measured) event() {}
func (Tick) event()     {}

// Failure classifies the end of a request by what it says about the Lease.
type Failure int

const (
	// None: the request succeeded.
	None Failure = iota
	// Conflict: the Lease was changed, or created, since; nothing was written.
	Conflict
	// Absent: there is no such Lease.
	Absent
	// Refused: the API server or a policy refuses the request.
	Refused
	// Unknown: no answer, or one that does not tell whether a write happened.
	Unknown
)

// Kind is a kind of request.
type Kind string

// Kinds of requests. All but Read and Create are Updates.
const (
	Read     Kind = "read"
	Create   Kind = "create"
	Take     Kind = "take"
	Confirm  Kind = "confirm"
	Renew    Kind = "renew"
	Release  Kind = "release"
	Outlived Kind = "release of an earlier start"
)

// Action is something to do. Actions of one step are done in their order.
type Action interface{ action() }

// Send begins a request; its end is a Reply. Never more than one is under way.
type Send struct {
	Kind Kind
	// Lease to Update or Create; nil for Read.
	Lease *coordinationv1.Lease
	// Timeout bounds the request.
	Timeout time.Duration
}

// Announce writes the nonce into the container's termination message.
type Announce struct{ Nonce string }

// Start starts the command with the claim in its environment.
type Start struct{ Claim Claim }

// Forward sends a signal to the command's process group.
type Forward struct {
	Number syscall.Signal
	// Cause is why the work has to stop; nil where the signal came from outside.
	Cause error
}

// Kill ends everything of the work by force.
type Kill struct{}

// Guard sets the deadline at which the work is killed without asking the
// machine again; the zero Instant disarms.
type Guard struct{ At clock.Instant }

// Say is a line for people.
type Say struct{ Text string }

// Exit ends the agent. Nothing follows it.
type Exit struct{ Code int }

func (Send) action()     {}
func (Announce) action() {}
func (Start) action()    {}
func (Forward) action()  {}
func (Kill) action()     {}
func (Guard) action()    {}
func (Say) action()      {}
func (Exit) action()     {}

// Claim is what the work shows to a protected resource.
type Claim struct {
	Token  int64
	Holder string
	Issuer string
}
