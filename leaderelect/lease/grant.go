// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"fmt"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1alpha1"
)

// The manager's steps. Each takes an observation and returns the Lease to
// Update, carrying the UID and resourceVersion of that same observation: the
// UID too, since a PUT without it re-creates a deleted Lease.

// Holder names a pod as the holder of a lease: <podName>_<podUID>.
func Holder(podName, podUID string) string { return podName + "_" + podUID }

// Basis is why another term may no longer be trusted.
type Basis struct {
	// Kind is the argument.
	Kind BasisKind
	// Holder and Started are the grant's that a death or a vouching is about;
	// they must be the observed Lease's, so that a proof about an earlier start
	// cannot end a later one.
	Holder  string
	Started string
	// Succeeded says that a proof of death shows the success of the work.
	Succeeded bool
}

// BasisKind is a kind of argument for the end of a term.
type BasisKind string

// Arguments for the end of a term.
const (
	// ByRelease: the Lease is Free; no argument is needed.
	ByRelease BasisKind = "Release"
	// ByLapse: the observation's age has reached the longest duration.
	ByLapse BasisKind = "Lapse"
	// ByDeath: the holder's containers are proven to have ended.
	ByDeath BasisKind = "Death"
	// ByVouching: an operator vouches for the end of the holder.
	ByVouching BasisKind = "Vouching"
)

// Outcome is the outcome that a term ended on this basis gets.
func (b Basis) Outcome() v1alpha1.Outcome {
	switch {
	case b.Kind == ByDeath && b.Succeeded:
		return v1alpha1.OutcomeSucceeded
	case b.Kind == ByDeath:
		return v1alpha1.OutcomeDied
	case b.Kind == ByVouching:
		return v1alpha1.OutcomeVouched
	default:
		return v1alpha1.OutcomeLapsed
	}
}

// success reports whether the basis shows that work which runs to completion
// has completed.
func (b Basis) success(r Record) bool {
	return b.Kind == ByDeath && b.Succeeded && r.Config.CloseOnSuccess
}

// Lapsed reports whether the Lease has been seen unchanged for the longest
// duration it ever had. The longest, since a foreign release writes one second,
// and a term keeps the duration that it was granted with.
func (o Observation) Lapsed(r Record) bool { return o.Age >= r.Longest }

// Ended reports whether basis shows that no earlier term of the Lease can still
// be trusted; nil, or an error that wraps ErrHeld. Under Forbid a recorded term
// does not end by lapse.
func (o Observation) Ended(r Record, basis Basis) error {
	switch r.Phase() {
	case Free:
		return nil
	case Granted:
		return fmt.Errorf("%w: the grant to %s is not confirmed; withdraw it first", ErrHeld, r.GrantHolder)
	case Live:
		return o.endedTerm(r, basis)
	}
	// Disputed. A foreign holder is respected until it lapses, whatever is
	// known of the recorded one.
	if r.Foreign() && !o.Lapsed(r) {
		return fmt.Errorf("%w: foreign holder %s renewed %s ago", ErrHeld, r.Holder, o.Age)
	}
	if r.Open() {
		return o.endedTerm(r, basis)
	}
	return nil
}

func (o Observation) endedTerm(r Record, basis Basis) error {
	switch basis.Kind {
	case ByLapse:
		if r.Config.OverlapPolicy == v1alpha1.OverlapForbid {
			return fmt.Errorf("%w: under Forbid a lapse does not end the term of %s", ErrHeld, r.GrantHolder)
		}
		if !o.Lapsed(r) {
			return fmt.Errorf("%w: unchanged for %s of %s", ErrHeld, o.Age, r.Longest)
		}
		return nil
	case ByDeath, ByVouching:
		if basis.Holder != r.GrantHolder || basis.Started != r.Started {
			return fmt.Errorf("%w: the proof is about %s started %q, the term is of %s started %q",
				ErrHeld, basis.Holder, basis.Started, r.GrantHolder, r.Started)
		}
		return nil
	}
	return fmt.Errorf("%w: %s has not released", ErrHeld, r.GrantHolder)
}

// Grant gives the Lease to holder and mints its token, in one write with the
// end of an earlier term on the given basis.
func (o Observation) Grant(holder, issuer string, basis Basis, now time.Time) (*coordinationv1.Lease, error) {
	r, err := o.managed()
	if err != nil {
		return nil, err
	}
	if r.Closed != "" || o.Lease.DeletionTimestamp != nil {
		return nil, fmt.Errorf("%w: %s", ErrClosed, closedReason(r))
	}
	if err := o.Ended(r, basis); err != nil {
		return nil, err
	}
	if basis.success(r) {
		return nil, fmt.Errorf("%w: the work has succeeded; end the term and close the lease", ErrClosed)
	}
	token, err := nextToken(o.Lease.ResourceVersion, r.Token, r.Config.MinToken, r.Config.TokenFloor)
	if err != nil {
		return nil, err
	}
	l := o.Lease.DeepCopy()
	if r.Open() {
		set(l, v1alpha1.AnnotationReleasedToken, r.Token)
		l.Annotations[v1alpha1.AnnotationOutcome] = string(basis.Outcome())
	}
	writeGrant(l, r, token, holder, issuer, now)
	return l, nil
}

func writeGrant(l *coordinationv1.Lease, r Record, token int64, holder, issuer string, now time.Time) {
	when := metav1.NewMicroTime(after(now, r.RenewTime))
	transitions := int32(r.Transitions + 1)
	seconds := int32(r.Config.Duration / time.Second)
	l.Spec.HolderIdentity = &holder
	l.Spec.LeaseDurationSeconds = &seconds
	l.Spec.AcquireTime, l.Spec.RenewTime = &when, &when
	l.Spec.LeaseTransitions = &transitions
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	for _, key := range []string{v1alpha1.AnnotationStarted, v1alpha1.AnnotationEndRequested,
		v1alpha1.AnnotationBlocked, v1alpha1.AnnotationBehind, v1alpha1.AnnotationSectionP99} {
		delete(l.Annotations, key)
	}
	l.Annotations[v1alpha1.AnnotationHolder] = holder
	l.Annotations[v1alpha1.AnnotationIssuer] = issuer
	set(l, v1alpha1.AnnotationToken, token)
	set(l, v1alpha1.AnnotationTerm, r.Transitions+1)
	set(l, v1alpha1.AnnotationLongestDuration, int64(r.Longest/time.Second))
}

// ConfirmFor confirms a grant for a pod in which nothing can (renewedBy Kubelet):
// its UID stands for the nonce, so that a token is for one pod. The caller must
// have seen that the pod carries the token and still has its gate, which goes
// only after this write. Since a stamped pod is kept until its term is seen to
// be over, a term so confirmed has a pod whose end can be proven; one that was
// confirmed with its grant could name a pod that had just gone.
func (o Observation) ConfirmFor(podUID string, now time.Time) (*coordinationv1.Lease, error) {
	r, err := o.managed()
	if err != nil {
		return nil, err
	}
	return o.Confirm(Start{Holder: r.GrantHolder, Token: r.Token, Nonce: podUID}, now)
}

// Withdraw takes back a grant that nobody has confirmed. No work has begun, so
// it may be done at any moment.
func (o Observation) Withdraw() (*coordinationv1.Lease, error) {
	r, err := o.managed()
	if err != nil {
		return nil, err
	}
	switch r.Phase() {
	case Granted:
		return o.end(r, v1alpha1.OutcomeWithdrawn, ""), nil
	case Live:
		return nil, ErrStarted
	}
	return nil, ErrEnded
}

// End ends a term on the given basis without granting to another candidate.
// A death that shows success of work that runs to completion closes the Lease
// in the same write.
func (o Observation) End(basis Basis) (*coordinationv1.Lease, error) {
	r, err := o.managed()
	if err != nil {
		return nil, err
	}
	if r.Phase() == Free {
		return nil, ErrEnded
	}
	if err := o.Ended(r, basis); err != nil {
		return nil, err
	}
	var closed v1alpha1.Closed
	if r.Open() && basis.success(r) { // Without an open term nothing has compared the proof with the Lease.
		closed = v1alpha1.ClosedCompleted
	}
	l := o.end(r, basis.Outcome(), closed)
	none := ""
	l.Spec.HolderIdentity = &none // A foreign holder has lapsed too, or Ended had refused.
	return l, nil
}

// RequestEnd asks the holder to stop its work and release. A live term is never
// cleared from outside.
func (o Observation) RequestEnd() (*coordinationv1.Lease, error) {
	r, err := o.managed()
	if err != nil {
		return nil, err
	}
	if r.Phase() != Live {
		return nil, ErrNotLive
	}
	l := o.Lease.DeepCopy()
	set(l, v1alpha1.AnnotationEndRequested, r.Token)
	return l, nil
}

// SetClosed closes the Lease for a reason, or opens it again ("" ). A live term
// goes on until its holder releases; Completed stays for ever.
func (o Observation) SetClosed(reason v1alpha1.Closed) (*coordinationv1.Lease, error) {
	r, err := o.managed()
	if err != nil {
		return nil, err
	}
	if r.Closed == v1alpha1.ClosedCompleted && reason != v1alpha1.ClosedCompleted {
		return nil, fmt.Errorf("%w: completed work never starts again", ErrClosed)
	}
	l := o.Lease.DeepCopy()
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	if reason == "" {
		delete(l.Annotations, v1alpha1.AnnotationClosed)
	} else {
		l.Annotations[v1alpha1.AnnotationClosed] = string(reason)
	}
	return l, nil
}

// held parses a Lease on which a holder acts: a managed or a competing one.
func (o Observation) held() (Record, error) {
	if o.Lease.Labels[v1alpha1.LabelCompeting] != "true" {
		return o.managed()
	}
	if o.Lease.Labels[v1alpha1.LabelManaged] != "" {
		return Record{}, ErrUnmanaged // Whoever wrote both meant neither.
	}
	return Parse(o.Lease)
}

func (o Observation) managed() (Record, error) {
	if o.Lease.Labels[v1alpha1.LabelManaged] != "true" {
		return Record{}, ErrUnmanaged
	}
	return Parse(o.Lease)
}

// end writes the end of the newest term. It leaves spec's holder to a foreign
// elector that has taken it.
func (o Observation) end(r Record, outcome v1alpha1.Outcome, closed v1alpha1.Closed) *coordinationv1.Lease {
	l := o.Lease.DeepCopy()
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	if r.Holder == r.GrantHolder {
		none := ""
		l.Spec.HolderIdentity = &none
	}
	if r.Open() {
		set(l, v1alpha1.AnnotationReleasedToken, r.Token)
		l.Annotations[v1alpha1.AnnotationOutcome] = string(outcome)
	}
	if closed != "" {
		l.Annotations[v1alpha1.AnnotationClosed] = string(closed)
	}
	return l
}

func closedReason(r Record) string {
	if r.Closed == "" {
		return "the Lease is being deleted"
	}
	return string(r.Closed)
}

func set(l *coordinationv1.Lease, key string, value int64) {
	if l.Annotations == nil {
		l.Annotations = map[string]string{}
	}
	l.Annotations[key] = strconv.FormatInt(value, 10)
}

// after returns now, or the least time after previous that the API can tell
// apart, so that every renewal is a change that observers can see.
func after(now, previous time.Time) time.Time {
	if least := previous.Add(time.Microsecond); now.Before(least) {
		return least
	}
	return now
}
