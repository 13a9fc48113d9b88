// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"fmt"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"leasehold.dev/api/v1alpha1"
)

// Observation is one look at a Lease: the object with the UID and
// resourceVersion that a write made from it will carry, and the age of its
// term's fields.
type Observation struct {
	// Lease is the object as read. Functions of this package never change it.
	Lease *coordinationv1.Lease
	// Age is how long, on the observer's own monotonic clock, the fields that
	// Fingerprint covers have been seen unchanged up to this very object. An
	// observer that has just restarted passes zero.
	//
	// Under renewedBy Kubelet the Lease does not move: the caller passes the
	// smaller of the age of the Lease and the silence of pod and node, after
	// live reads of both.
	Age time.Duration
}

// Phase is the state of a Lease.
type Phase string

// The phases of a Lease (see the package documentation for the diagram).
const (
	// Free: never granted, or the newest term has ended.
	Free Phase = "Free"
	// Granted: a candidate is named and has not confirmed; no work has begun.
	Granted Phase = "Granted"
	// Live: the holder has confirmed; its work may be running.
	Live Phase = "Live"
	// Disputed: what the Lease says was not written by this protocol (a foreign
	// elector's holder, a holder wiped without a release, a re-created Lease
	// with an unfinished term). It is nobody's grant, and not free.
	Disputed Phase = "Disputed"
)

// Config is how the next terms of a Lease behave.
type Config struct {
	Duration      time.Duration
	RenewInterval time.Duration
	TakeUp        time.Duration
	LockDelay     time.Duration
	OverlapPolicy v1alpha1.OverlapPolicy
	RenewedBy     v1alpha1.RenewedBy
	MinToken      int64
	// TokenFloor is what the owner has recorded; without an owner that records
	// it is MaxToken.
	TokenFloor     int64
	CandidateOwner string
	CloseOnSuccess bool
}

// Record is what a Lease says, parsed.
type Record struct {
	// Spec, as any elector reads it.
	Holder      string
	Transitions int64
	Duration    time.Duration
	RenewTime   time.Time
	AcquireTime time.Time

	// The newest grant.
	Token       int64
	Term        int64
	GrantHolder string
	Started     string
	Issuer      string

	// Its end.
	Released     int64
	Outcome      v1alpha1.Outcome
	Closed       v1alpha1.Closed
	EndRequested int64

	// Longest is the longest duration that this Lease ever had, and what every
	// wait for a lapse uses.
	Longest time.Duration
	Config  Config
}

// Parse reads a Lease. It fails on a value that this protocol would not have
// written, since nothing may be decided from a Lease that cannot be understood.
func Parse(l *coordinationv1.Lease) (Record, error) {
	p := parser{annotations: l.Annotations}
	r := Record{
		Token:        p.integer(v1alpha1.AnnotationToken),
		Term:         p.integer(v1alpha1.AnnotationTerm),
		GrantHolder:  l.Annotations[v1alpha1.AnnotationHolder],
		Started:      l.Annotations[v1alpha1.AnnotationStarted],
		Issuer:       l.Annotations[v1alpha1.AnnotationIssuer],
		Released:     p.integer(v1alpha1.AnnotationReleasedToken),
		Outcome:      v1alpha1.Outcome(l.Annotations[v1alpha1.AnnotationOutcome]),
		Closed:       v1alpha1.Closed(l.Annotations[v1alpha1.AnnotationClosed]),
		EndRequested: p.integer(v1alpha1.AnnotationEndRequested),
		Config:       p.config(),
	}
	r.readSpec(l.Spec)
	r.Longest = max(p.seconds(v1alpha1.AnnotationLongestDuration), r.Duration, r.Config.Duration)
	if p.err != nil {
		return Record{}, p.err
	}
	if r.Released > r.Token {
		return Record{}, fmt.Errorf("annotation %s is %d, above %s %d: restore it by hand or delete the Lease",
			v1alpha1.AnnotationReleasedToken, r.Released, v1alpha1.AnnotationToken, r.Token)
	}
	return r, nil
}

func (r *Record) readSpec(spec coordinationv1.LeaseSpec) {
	if spec.HolderIdentity != nil {
		r.Holder = *spec.HolderIdentity
	}
	if spec.LeaseTransitions != nil {
		r.Transitions = int64(*spec.LeaseTransitions)
	}
	if spec.LeaseDurationSeconds != nil {
		r.Duration = time.Duration(*spec.LeaseDurationSeconds) * time.Second
	}
	if spec.RenewTime != nil {
		r.RenewTime = spec.RenewTime.Time
	}
	if spec.AcquireTime != nil {
		r.AcquireTime = spec.AcquireTime.Time
	}
}

// Open reports whether the newest grant's term has not ended by this protocol,
// whatever spec says.
func (r Record) Open() bool { return r.Token > r.Released }

// Phase derives the state of the Lease. A grant counts only while holder and
// term equal spec's, so that an elector that does not know this protocol and
// seizes the Lease has no token.
func (r Record) Phase() Phase {
	switch {
	case !r.Open() && r.Holder == "":
		return Free
	case !r.Open() || r.Holder != r.GrantHolder || r.Term != r.Transitions:
		return Disputed
	case r.Started == "":
		return Granted
	default:
		return Live
	}
}

// Foreign reports whether spec names a holder that no open grant names.
func (r Record) Foreign() bool {
	return r.Phase() == Disputed && r.Holder != "" && (!r.Open() || r.Holder != r.GrantHolder)
}

// Fingerprint covers the fields whose change shows that somebody acted on the
// term. Edits of labels or configuration keep it, so that they cannot keep a
// dead holder's lease alive.
func Fingerprint(l *coordinationv1.Lease) string {
	var renewed, acquired string
	if t := l.Spec.RenewTime; t != nil {
		renewed = strconv.FormatInt(t.UnixMicro(), 10)
	}
	if t := l.Spec.AcquireTime; t != nil {
		acquired = strconv.FormatInt(t.UnixMicro(), 10)
	}
	var holder string
	if l.Spec.HolderIdentity != nil {
		holder = *l.Spec.HolderIdentity
	}
	a := l.Annotations
	return fmt.Sprintf("%q %q %s %s %q %q %q", l.UID, holder, renewed, acquired,
		a[v1alpha1.AnnotationToken], a[v1alpha1.AnnotationStarted], a[v1alpha1.AnnotationReleasedToken])
}

type parser struct {
	annotations map[string]string
	err         error
}

// integer reads a canonical non-negative decimal; absent means zero.
func (p *parser) integer(key string) int64 {
	value, ok := p.annotations[key]
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != value || n > MaxToken {
		if p.err == nil {
			p.err = fmt.Errorf("annotation %s is %q: want a decimal integer from 0 to %d", key, value, MaxToken)
		}
		return 0
	}
	return n
}

func (p *parser) seconds(key string) time.Duration {
	n := p.integer(key)
	if n > maxSeconds {
		if p.err == nil {
			p.err = fmt.Errorf("annotation %s is %d: want at most %d seconds", key, n, maxSeconds)
		}
		return 0
	}
	return time.Duration(n) * time.Second
}

func (p *parser) secondsOr(key string, absent time.Duration) time.Duration {
	if _, ok := p.annotations[key]; !ok {
		return absent
	}
	return p.seconds(key)
}

func (p *parser) config() Config {
	c := Config{
		OverlapPolicy:  v1alpha1.OverlapPolicy(p.word(v1alpha1.AnnotationOverlapPolicy, string(v1alpha1.OverlapForbid), overlapPolicies)),
		RenewedBy:      v1alpha1.RenewedBy(p.word(v1alpha1.AnnotationRenewedBy, string(v1alpha1.RenewedByKubelet), renewers)),
		MinToken:       p.integer(v1alpha1.AnnotationMinToken),
		CandidateOwner: p.annotations[v1alpha1.AnnotationCandidateOwner],
		CloseOnSuccess: p.annotations[v1alpha1.AnnotationCloseOn] == v1alpha1.CloseOnSuccess,
	}
	c.TokenFloor = MaxToken
	if _, ok := p.annotations[v1alpha1.AnnotationTokenFloor]; ok {
		c.TokenFloor = p.integer(v1alpha1.AnnotationTokenFloor)
	}
	c.Duration = p.secondsOr(v1alpha1.AnnotationDuration, DefaultDuration(c.RenewedBy))
	c.RenewInterval = p.secondsOr(v1alpha1.AnnotationRenewInterval, c.Duration/3)
	c.TakeUp = p.secondsOr(v1alpha1.AnnotationTakeUp, DefaultTakeUp)
	c.LockDelay = p.secondsOr(v1alpha1.AnnotationLockDelay, DefaultLockDelay)
	if p.err == nil {
		p.err = c.Timing().Validate()
	}
	return c
}

// The strictest words stand in for absent ones: a Lease made by hand without
// them is safe, if slow.
var (
	overlapPolicies = []string{string(v1alpha1.OverlapFence), string(v1alpha1.OverlapForbid), string(v1alpha1.OverlapTolerate)}
	renewers        = []string{string(v1alpha1.RenewedByAgent), string(v1alpha1.RenewedBySidecar),
		string(v1alpha1.RenewedByApplication), string(v1alpha1.RenewedByKubelet)}
)

func (p *parser) word(key, absent string, known []string) string {
	value, ok := p.annotations[key]
	if !ok {
		return absent
	}
	for _, w := range known {
		if value == w {
			return value
		}
	}
	if p.err == nil {
		p.err = fmt.Errorf("annotation %s is %q: want one of %v", key, value, known)
	}
	return absent
}
