// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"slices"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1alpha1"
)

// Carry is what the owner of a Lease still knows when the Lease is gone.
type Carry struct {
	// Token is the newest token that is known to have been granted, or the
	// recorded floor.
	Token int64
	// Holder is the holder of an unfinished term; empty: no term is unfinished.
	Holder string
	// Transitions is the number of grants so far.
	Transitions int64
	// Longest is the longest duration that a term of the Lease is known to have
	// had, where it may differ from the configured one: an unfinished term is
	// trusted for the duration that it was granted with, not for today's.
	Longest time.Duration
}

// StartedUnknown stands for the nonce of a carried term. No process has it, so
// that a proof of death which depends on a nonce cannot end that term.
const StartedUnknown = "unknown"

// New returns the Lease to create. It is Free, or Disputed where a term is
// unfinished, and closed until its maker has looked at its owner once more
// after the create (ClosedNew): whoever creates from a stale view thereby
// grants nothing.
func New(meta metav1.ObjectMeta, config Config, carry Carry) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: *meta.DeepCopy()}
	if l.Labels == nil {
		l.Labels = map[string]string{}
	}
	l.Labels[v1alpha1.LabelManaged] = "true"
	if !slices.Contains(l.Finalizers, v1alpha1.FinalizerLease) {
		l.Finalizers = append(l.Finalizers, v1alpha1.FinalizerLease)
	}
	config.Write(l)
	l.Annotations[v1alpha1.AnnotationClosed] = string(v1alpha1.ClosedNew)
	set(l, v1alpha1.AnnotationLongestDuration, int64(max(config.Duration, carry.Longest)/time.Second))
	if carry.Holder != "" {
		carry.Token = max(carry.Token, 1) // An unfinished term stays open, also where its token is not known.
	}
	transitions := int32(carry.Transitions)
	l.Spec.LeaseTransitions = &transitions
	if carry.Token > 0 {
		set(l, v1alpha1.AnnotationToken, carry.Token)
		set(l, v1alpha1.AnnotationTerm, carry.Transitions)
	}
	if carry.Token > 0 && carry.Holder == "" {
		set(l, v1alpha1.AnnotationReleasedToken, carry.Token)
	}
	if carry.Holder != "" {
		l.Annotations[v1alpha1.AnnotationHolder] = carry.Holder
		l.Annotations[v1alpha1.AnnotationStarted] = StartedUnknown
	}
	return l
}

// Write puts the configuration into the Lease's annotations. It touches no
// field of a term: a changed duration holds from the next grant.
func (c Config) Write(l *coordinationv1.Lease) {
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	values := map[string]string{
		v1alpha1.AnnotationDuration:       seconds(c.Duration),
		v1alpha1.AnnotationRenewInterval:  seconds(c.RenewInterval),
		v1alpha1.AnnotationTakeUp:         seconds(c.TakeUp),
		v1alpha1.AnnotationLockDelay:      seconds(c.LockDelay),
		v1alpha1.AnnotationOverlapPolicy:  string(c.OverlapPolicy),
		v1alpha1.AnnotationRenewedBy:      string(c.RenewedBy),
		v1alpha1.AnnotationCandidateOwner: c.CandidateOwner,
	}
	if c.MinToken > 0 {
		values[v1alpha1.AnnotationMinToken] = strconv.FormatInt(c.MinToken, 10)
	}
	if c.TokenFloor < MaxToken {
		values[v1alpha1.AnnotationTokenFloor] = strconv.FormatInt(c.TokenFloor, 10)
	}
	if c.CloseOnSuccess {
		values[v1alpha1.AnnotationCloseOn] = v1alpha1.CloseOnSuccess
	}
	for _, key := range []string{v1alpha1.AnnotationMinToken, v1alpha1.AnnotationTokenFloor, v1alpha1.AnnotationCloseOn} {
		delete(l.Annotations, key)
	}
	for key, value := range values {
		if value == "" {
			delete(l.Annotations, key)
			continue
		}
		l.Annotations[key] = value
	}
}

func seconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }
