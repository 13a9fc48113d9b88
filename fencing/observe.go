// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"context"
	"errors"
	"time"
)

// Verb is what was tried on a resource.
type Verb string

// The verbs of a guard, and the conditional write of each adapter.
const (
	VerbArm   Verb = "arm"
	VerbRaise Verb = "raise"
	VerbWrite Verb = "write"
	VerbRead  Verb = "read"
	VerbAdopt Verb = "adopt"
)

// Class is what became of it, in one word, for metrics and logs.
type Class string

// ClassAccepted is success, ClassOther an error without a class of this
// package: the store's own, or that of a context that ended. The rest are named
// after their errors.
const (
	ClassAccepted  Class = "accepted"
	ClassFenced    Class = "fenced"
	ClassNotRaised Class = "not_raised"
	ClassBehind    Class = "behind"
	ClassForeign   Class = "foreign"
	ClassNotArmed  Class = "not_armed"
	ClassRetry     Class = "retry"
	ClassUnknown   Class = "unknown"
	ClassInvalid   Class = "invalid"
	ClassOther     Class = "other"
)

var classOf = map[error]Class{
	ErrFenced:       ClassFenced,
	ErrNotRaised:    ClassNotRaised,
	ErrBehind:       ClassBehind,
	ErrForeign:      ClassForeign,
	ErrNotArmed:     ClassNotArmed,
	ErrRetry:        ClassRetry,
	ErrUnknown:      ClassUnknown,
	ErrInvalidClaim: ClassInvalid,
	ErrNoClaim:      ClassInvalid,
}

// ClassOf returns the class of an error; nil is ClassAccepted.
func ClassOf(err error) Class {
	if err == nil {
		return ClassAccepted
	}
	for is, class := range classOf {
		if errors.Is(err, is) {
			return class
		}
	}
	return ClassOther
}

// Operation is one attempt that has ended.
type Operation struct {
	// Resource is the name that the caller gave it.
	Resource string
	Verb     Verb
	// Err is nil if it was accepted; see ClassOf.
	Err error
	// Took is how long it took. For a raise that is mostly the wait for writes
	// of the holder before; a long one means that it is frozen in the middle of
	// a transaction.
	Took time.Duration
}

// Observer is told of operations, to count and to log them. Observe is called
// from the goroutine of the operation, by many at once, and must not block.
type Observer interface {
	Observe(op Operation)
}

// ObserverFunc is a function that observes.
type ObserverFunc func(op Operation)

// Observe implements Observer.
func (f ObserverFunc) Observe(op Operation) { f(op) }

// ObserveWrite runs a guarded write of any adapter and tells the observer what
// became of it.
func ObserveWrite(o Observer, resource string, write func() error) error {
	return observe(o, resource, VerbWrite, write)
}

// Observed returns a guard that tells the observer of each operation. Writes do
// not go through a Guard: see ObserveWrite.
func Observed(guard Guard, resource string, o Observer) Guard {
	return &observed{guard: guard, resource: resource, observer: o}
}

type observed struct {
	guard    Guard
	resource string
	observer Observer
}

func (g *observed) Arm(ctx context.Context, issuer string) error {
	return observe(g.observer, g.resource, VerbArm, func() error { return g.guard.Arm(ctx, issuer) })
}

func (g *observed) Raise(ctx context.Context, claim Claim) error {
	return observe(g.observer, g.resource, VerbRaise, func() error { return g.guard.Raise(ctx, claim) })
}

func (g *observed) Read(ctx context.Context) (m Mark, err error) {
	err = observe(g.observer, g.resource, VerbRead, func() error { m, err = g.guard.Read(ctx); return err })
	return m, err
}

func (g *observed) Adopt(ctx context.Context, fromIssuer, toIssuer string) error {
	return observe(g.observer, g.resource, VerbAdopt, func() error { return g.guard.Adopt(ctx, fromIssuer, toIssuer) })
}

func observe(o Observer, resource string, verb Verb, do func() error) error {
	start := time.Now() //nolint:forbidigo // It is measured and decides nothing.
	err := do()
	o.Observe(Operation{Resource: resource, Verb: verb, Err: err, Took: time.Since(start)}) //nolint:forbidigo // See above.
	return err
}
