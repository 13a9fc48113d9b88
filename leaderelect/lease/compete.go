// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1alpha1"
)

// Competing: where no controller grants a Lease, the candidates take it
// themselves. The same fields, tokens and holder's steps; what differs:
//
//   - The Lease carries LabelCompeting and never LabelManaged. The controllers
//     and policies for managed Leases do not see it, and a candidate does not
//     touch a managed one. A Lease with neither label, such as another elector's
//     of the same name, is taken over like one that a foreigner holds, and gets
//     the label in the write that takes it.
//   - Take grants and confirms in one write, since whoever takes is there to
//     work: nonce and token appear together. Work starts after its reply.
//   - Only a Release by this protocol frees the Lease at once. All else waits for
//     the longest duration to pass without change, on the candidate's own clock.
//     That includes a Lease that was never granted: it may be the successor of
//     one that was deleted while held, and nobody else records that. A caller
//     who knows better says so (Rival.Fresh).
//   - No proof of death is looked for, so Forbid is not for competing Leases.
//   - The duration is that of the candidate that takes the Lease. Others wait for
//     what the Lease says, not for their own.

// Rival is a candidate that takes a competing Lease itself.
type Rival struct {
	// Holder identifies the candidate, like no other process at any time.
	Holder string
	// Nonce names the start of work that the Lease is taken for.
	Nonce string
	// Issuer is clusterUID/namespace/lease.
	Issuer string
	// Timing is that of the terms that the candidate takes, in whole seconds.
	Timing Timing
	// Fresh says that the caller vouches for a Lease that was never granted: no
	// Lease of that name was deleted while somebody held it. Then it is taken at
	// once.
	Fresh bool
	// Longest is the longest duration that the candidate has seen on the Lease. A
	// foreign elector that releases hides what it had.
	Longest time.Duration
}

// Validate says what a Lease could not carry.
func (c Rival) Validate() error {
	switch {
	case c.Holder == "":
		return fmt.Errorf("the candidate has no name")
	case c.Issuer == "":
		return fmt.Errorf("the issuer is not known")
	case c.Timing.Duration%time.Second != 0 || c.Timing.RenewInterval%time.Second != 0:
		return fmt.Errorf("duration %s and renew interval %s: want whole seconds", c.Timing.Duration, c.Timing.RenewInterval)
	}
	return c.Timing.Validate()
}

// TakeableIn returns how long the Lease must still be seen unchanged before the
// candidate may take it; zero: it may now. An error says why it may not,
// whatever time passes: ErrManaged, ErrClosed, or a Lease that cannot be
// understood.
func (o Observation) TakeableIn(c Rival) (time.Duration, error) {
	r, err := o.contested()
	if err != nil {
		return 0, err
	}
	if r.freed() || (c.Fresh && r.untouched()) {
		return 0, nil
	}
	return max(o.waitFor(c, r)-o.Age, 0), nil
}

// freed reports whether the newest holder has released by this protocol, and
// nobody else has held the Lease since.
func (r Record) freed() bool {
	return r.Phase() == Free && r.Token > 0 && r.Term == r.Transitions
}

// untouched reports whether the Lease shows no holder at any time.
func (r Record) untouched() bool {
	return r.Phase() == Free && r.Token == 0 && r.Transitions == 0 && r.AcquireTime.IsZero() && r.RenewTime.IsZero()
}

// waitFor is how long an unchanged Lease may still be somebody's. The durations
// that Parse assumes where annotations are missing do not count for a Lease that
// this protocol has not marked.
func (o Observation) waitFor(c Rival, r Record) time.Duration {
	wait := max(r.Duration, c.Longest, c.Timing.Duration)
	if o.Lease.Labels[v1alpha1.LabelCompeting] == "true" {
		wait = max(wait, r.Longest)
	}
	return wait
}

// contested parses a Lease that candidates may take.
func (o Observation) contested() (Record, error) {
	l := o.Lease
	if l.Labels[v1alpha1.LabelManaged] != "" {
		return Record{}, ErrManaged
	}
	r, err := Parse(l)
	switch {
	case err != nil:
		return Record{}, err
	case r.Closed != "" || l.DeletionTimestamp != nil:
		return Record{}, fmt.Errorf("%w: %s", ErrClosed, closedReason(r))
	case l.Annotations[v1alpha1.AnnotationOverlapPolicy] == string(v1alpha1.OverlapForbid):
		return Record{}, fmt.Errorf("%w: under Forbid only the manager can prove a holder dead", ErrManaged)
	}
	return r, nil
}

// Take gives the Lease to the candidate, mints its token and confirms it, in one
// write with the end of an earlier term. ErrHeld: TakeableIn is not zero.
func (o Observation) Take(c Rival, now time.Time) (*coordinationv1.Lease, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Nonce == "" || c.Nonce == StartedUnknown {
		return nil, fmt.Errorf("nonce %q names no start of work", c.Nonce)
	}
	wait, err := o.TakeableIn(c)
	if err != nil {
		return nil, err
	}
	if wait > 0 {
		return nil, fmt.Errorf("%w: to be seen unchanged for another %s", ErrHeld, wait)
	}
	r, err := o.contested()
	if err != nil {
		return nil, err
	}
	token, err := nextToken(o.Lease.ResourceVersion, r.Token, r.Config.MinToken, r.Config.TokenFloor)
	if err != nil {
		return nil, err
	}
	l := o.Lease.DeepCopy()
	mark(l)
	r.Longest = o.waitFor(c, r)
	r.Config = c.config(r.Config)
	r.Config.Write(l)
	if r.Open() {
		set(l, v1alpha1.AnnotationReleasedToken, r.Token)
		l.Annotations[v1alpha1.AnnotationOutcome] = string(v1alpha1.OutcomeLapsed)
	}
	writeGrant(l, r, token, c.Holder, c.Issuer, now)
	l.Annotations[v1alpha1.AnnotationStarted] = c.Nonce
	return l, nil
}

// config is the configuration that the candidate writes. What a person may have
// set on the Lease stays.
func (c Rival) config(have Config) Config {
	return Config{
		Duration: c.Timing.Duration, RenewInterval: c.Timing.RenewInterval,
		TakeUp: DefaultTakeUp, LockDelay: DefaultLockDelay,
		OverlapPolicy: v1alpha1.OverlapFence, RenewedBy: v1alpha1.RenewedByApplication,
		MinToken: have.MinToken, TokenFloor: have.TokenFloor, CloseOnSuccess: have.CloseOnSuccess,
	}
}

// NewCompeting returns the competing Lease to create where there is none. What
// the candidate remembers of a Lease that is gone stands on it as a term that
// is not known to have ended, so that everybody waits for it to lapse.
func NewCompeting(meta metav1.ObjectMeta, c Rival, carry Carry) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: *meta.DeepCopy()}
	mark(l)
	c.config(Config{TokenFloor: MaxToken}).Write(l)
	set(l, v1alpha1.AnnotationLongestDuration, int64(max(c.Timing.Duration, c.Longest, carry.Longest)/time.Second))
	transitions := int32(carry.Transitions)
	l.Spec.LeaseTransitions = &transitions
	if carry.Token == 0 && carry.Holder == "" {
		return l
	}
	if carry.Holder == "" {
		carry.Holder = StartedUnknown
	}
	set(l, v1alpha1.AnnotationToken, max(carry.Token, 1))
	set(l, v1alpha1.AnnotationTerm, carry.Transitions)
	l.Annotations[v1alpha1.AnnotationHolder] = carry.Holder
	l.Annotations[v1alpha1.AnnotationStarted] = StartedUnknown
	return l
}

func mark(l *coordinationv1.Lease) {
	if l.Labels == nil {
		l.Labels = map[string]string{}
	}
	l.Labels[v1alpha1.LabelCompeting] = "true"
}
