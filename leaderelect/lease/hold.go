// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1alpha1"
)

// The holder's steps.

// Start is one start of work under one grant: what a holder must find on the
// Lease to go on.
type Start struct {
	// Holder is <podName>_<podUID>.
	Holder string
	// Token is the grant's.
	Token int64
	// Nonce names this start.
	Nonce string
}

// Check compares a Lease with the start: nil while the term is confirmed by
// this start, ErrNotLive while it waits for its Confirm, *OtherStartError when
// another start confirmed it, else an error that wraps ErrEnded. A holder whose
// recorded grant still stands but whose spec was seized or wiped has lost its
// term: nothing but its own Release may follow.
func (s Start) Check(r Record) error {
	switch {
	case r.Token != s.Token || r.GrantHolder != s.Holder:
		return fmt.Errorf("%w: the lease names token %d of %s", ErrEnded, r.Token, r.GrantHolder)
	case !r.Open():
		return fmt.Errorf("%w: token %d was released (%s)", ErrEnded, s.Token, r.Outcome)
	case r.Phase() == Disputed:
		return fmt.Errorf("%w: the lease was taken by %q outside of the protocol", ErrEnded, r.Holder)
	case r.Started == "":
		return ErrNotLive
	case r.Started != s.Nonce:
		return &OtherStartError{Nonce: r.Started}
	}
	return nil
}

// Confirm is the holder's first renewal. Work starts only after its reply. The
// nonce must name a start: an empty one would leave the grant unconfirmed.
func (o Observation) Confirm(s Start, now time.Time) (*coordinationv1.Lease, error) {
	if s.Nonce == "" || s.Nonce == StartedUnknown {
		return nil, fmt.Errorf("nonce %q names no start of work", s.Nonce)
	}
	r, err := o.held()
	if err != nil {
		return nil, err
	}
	switch err := s.Check(r); {
	case errors.Is(err, ErrNotLive):
		l := o.renewed(r, now)
		l.Annotations[v1alpha1.AnnotationStarted] = s.Nonce
		return l, nil
	case err == nil:
		return o.renewed(r, now), nil // Confirmed before; its reply was lost.
	default:
		return nil, err
	}
}

// Renew moves renewTime while holder, token and nonce are the caller's. It
// never re-acquires.
func (o Observation) Renew(s Start, now time.Time) (*coordinationv1.Lease, error) {
	r, err := o.held()
	if err != nil {
		return nil, err
	}
	if err := s.Check(r); err != nil {
		return nil, err
	}
	return o.renewed(r, now), nil
}

// Release ends the caller's term after its work has ended. Success of work that
// runs to completion closes the Lease in the same write, so that no standby
// starts it again. It is permitted while the recorded grant is the caller's,
// also where spec was seized or wiped: the word of the holder itself ends its
// term.
func (o Observation) Release(s Start, outcome v1alpha1.Outcome) (*coordinationv1.Lease, error) {
	r, err := o.held()
	if err != nil {
		return nil, err
	}
	switch {
	case r.Token != s.Token || r.GrantHolder != s.Holder || !r.Open():
		return nil, s.Check(r)
	case r.Started != s.Nonce && r.Started != "":
		return nil, &OtherStartError{Nonce: r.Started}
	}
	return o.end(r, outcome, r.closing(outcome)), nil
}

// ReleaseOutlived ends the term of an earlier start in the same container, of
// which the caller's own start is the proof that it has ended. It refuses with
// *OtherStartError where the caller is not entitled; then only a lapse helps.
func (o Observation) ReleaseOutlived(s Start, mine Nonce) (*coordinationv1.Lease, error) {
	r, err := o.managed()
	if err != nil {
		return nil, err
	}
	if r.Token != s.Token || r.GrantHolder != s.Holder || !r.Open() {
		return nil, s.Check(r)
	}
	other, err := ParseNonce(r.Started)
	if err != nil || !mine.Outlived(other) || r.Config.RenewedBy != v1alpha1.RenewedByAgent {
		return nil, &OtherStartError{Nonce: r.Started}
	}
	return o.end(r, v1alpha1.OutcomeRestarted, ""), nil
}

func (r Record) closing(outcome v1alpha1.Outcome) v1alpha1.Closed {
	if outcome == v1alpha1.OutcomeSucceeded && r.Config.CloseOnSuccess {
		return v1alpha1.ClosedCompleted
	}
	return ""
}

func (o Observation) renewed(r Record, now time.Time) *coordinationv1.Lease {
	l := o.Lease.DeepCopy()
	when := metav1.NewMicroTime(after(now, r.RenewTime))
	l.Spec.RenewTime = &when
	return l
}
