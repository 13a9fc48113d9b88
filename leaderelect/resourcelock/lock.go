// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcelock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/fencing"
	"leasehold.dev/internal/holder/clock"
	"leasehold.dev/internal/holder/leases"
	"leasehold.dev/leaderelect/lease"
)

// ErrNotHeld: this lock has no term that can be trusted at this moment. Do not
// write.
var ErrNotHeld = errors.New("the lock is not held")

const (
	userAgent       = "leasehold-resourcelock"
	defaultDuration = 15 * time.Second
	// stoppedLeading is what a LeaderElector records when its time as a leader is
	// over, whatever ended it.
	stoppedLeading = "stopped leading"
)

// Options of a Lock.
type Options struct {
	// Config reaches the API server. Required. Its rate limiter and timeout are
	// not used.
	Config *rest.Config
	// Namespace and Name of the Lease. Required.
	Namespace string
	Name      string
	// Identity is who the holder is, different for each process, also after a
	// restart. Required; printable ASCII without spaces.
	Identity string
	// LeaseDuration is the LeaderElector's: whole seconds, from 3 s; by default
	// 15 s, as there.
	LeaseDuration time.Duration
	// Issuer names the sequence of tokens; by default
	// <UID of namespace kube-system>/<namespace>/<name>, for which the program must
	// be allowed to get that namespace.
	Issuer string
	// Fresh says that no Lease of this name was deleted while somebody held it, so
	// that one that shows no holder at any time is taken at once. Otherwise it is
	// first seen unchanged for one duration.
	Fresh bool
	// EventRecorder gets the elector's events; none by default.
	EventRecorder resourcelock.EventRecorder
}

// Lock is a resourcelock.Interface that mints a fencing token at each
// acquisition. It serves one LeaderElector at a time.
type Lock struct {
	o      Options
	timing lease.Timing
	client *leases.Client
	clock  clock.Clock

	// op is held by the one operation under way, mu while the fields are used.
	op sync.Mutex
	mu sync.Mutex

	issuer  string
	seen    *coordinationv1.Lease
	rec     lease.Record
	print   string
	changed clock.Instant
	longest time.Duration
	// nonce is of the attempt or the term, from the first try to take the Lease
	// until the elector's time as a leader is over.
	nonce string
	term  *term
	// spent: a term of this elector's time has ended. It gets no other, since its
	// work would go on from the one into the other without a look at what happened
	// between.
	spent error
}

type term struct {
	start lease.Start
	claim fencing.Claim
	until clock.Instant
	// led: the elector has been told that it leads, so that work may have started.
	led bool
}

var _ resourcelock.Interface = (*Lock)(nil)

// New returns a lock. It does not contact the API server.
func New(o Options) (*Lock, error) {
	if o.LeaseDuration == 0 {
		o.LeaseDuration = defaultDuration
	}
	l := &Lock{o: o, issuer: o.Issuer, clock: clock.New(),
		timing: lease.Timing{Duration: o.LeaseDuration, RenewInterval: (o.LeaseDuration / 3).Truncate(time.Second)}}
	claim := fencing.Claim{Issuer: o.Issuer, Token: 1, Holder: o.Identity}
	if claim.Issuer == "" {
		claim.Issuer = "read-later"
	}
	switch {
	case o.Config == nil:
		return nil, errors.New("resourcelock: no Config to reach the API server with")
	case o.Namespace == "" || o.Name == "":
		return nil, errors.New("resourcelock: Namespace and Name of the Lease are required")
	}
	if err := claim.Validate(); err != nil {
		return nil, fmt.Errorf("resourcelock: %w", err)
	}
	if err := (lease.Rival{Holder: o.Identity, Issuer: claim.Issuer, Timing: l.timing}).Validate(); err != nil {
		return nil, fmt.Errorf("resourcelock: %w", err)
	}
	var err error
	if l.client, err = leases.New(o.Config, userAgent, o.Namespace, o.Name); err != nil {
		return nil, fmt.Errorf("resourcelock: %w", err)
	}
	return l, nil
}

// Claim is what the holder shows to a protected resource with every write. It
// returns ErrNotHeld unless the lock has a term that can be trusted at this
// moment: its last renewal began less than four fifths of the duration ago.
//
// Work keeps the claim that it started with. It may ask again, to see whether it
// still leads, but where the answer is another claim, that is of a later term.
func (l *Lock) Claim() (fencing.Claim, error) {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.term == nil && l.spent != nil:
		return fencing.Claim{}, fmt.Errorf("%w: %w", ErrNotHeld, l.spent)
	case l.term == nil:
		return fencing.Claim{}, ErrNotHeld
	case l.term.until.IsZero() || l.term.until.Reached(now):
		return fencing.Claim{}, fmt.Errorf("%w: the term was not renewed in time", ErrNotHeld)
	}
	return l.term.claim, nil
}

// Get reads the Lease, and creates it where there is none: nobody holds a Lease
// by having created it. Of a Lease that is not free it returns a record that
// names a holder.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.op.Lock()
	defer l.op.Unlock()
	got, err := l.client.Get(ctx, l.timing.RequestTimeout())
	if apierrors.IsNotFound(err) {
		l.mu.Lock()
		l.lose(fmt.Errorf("%w: the Lease is gone", lease.ErrEnded))
		made := lease.NewCompeting(metav1.ObjectMeta{Namespace: l.o.Namespace, Name: l.o.Name}, l.rival(), l.carry())
		l.mu.Unlock()
		if got, err = l.client.Create(ctx, made, l.timing.RequestTimeout()); err != nil {
			// In words only: an elector that is told "not found", as of the namespace,
			// calls Create and shows what that says instead.
			return nil, nil, fmt.Errorf("resourcelock: create Lease %s: %s", l.Describe(), err.Error())
		}
	}
	if err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.see(got); err != nil {
		return nil, nil, err
	}
	record := l.record()
	raw, err := json.Marshal(record)
	return &record, raw, err
}

// Create is not how this lock is acquired: Get has created the Lease.
func (l *Lock) Create(context.Context, resourcelock.LeaderElectionRecord) error {
	return fmt.Errorf("resourcelock: Lease %s is created by Get", l.Describe())
}

// Update takes, renews or releases the Lease, as the record asks for; only what
// the protocol allows.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.op.Lock()
	defer l.op.Unlock()
	switch {
	case record.HolderIdentity == "":
		return l.release(ctx)
	case record.HolderIdentity != l.o.Identity:
		return fmt.Errorf("resourcelock: the record names %q, this lock is of %q", record.HolderIdentity, l.o.Identity)
	case time.Duration(record.LeaseDurationSeconds)*time.Second != l.o.LeaseDuration:
		return fmt.Errorf("resourcelock: the elector's LeaseDuration is %d s, the lock's %s: set both alike",
			record.LeaseDurationSeconds, l.o.LeaseDuration)
	}
	if err := l.identify(ctx); err != nil {
		return err
	}
	sent := l.clock.Now()
	to, err := l.next(sent)
	if err != nil {
		return err
	}
	got, err := l.client.Update(ctx, to, l.timing.RequestTimeout())
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.see(got); err != nil {
		return err
	}
	if l.term == nil {
		return fmt.Errorf("resourcelock: %w", l.lost())
	}
	l.term.until, l.term.led = sent.Add(l.timing.Trust()), true
	return nil
}

// next is the Lease that takes or renews, from what was last seen.
func (l *Lock) next(now clock.Instant) (*coordinationv1.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		return nil, errors.New("resourcelock: the Lease has not been read yet")
	}
	if l.term != nil {
		return l.observe(now).Renew(l.term.start, now.Time())
	}
	if l.spent != nil {
		return nil, fmt.Errorf("resourcelock: %w", l.lost())
	}
	if l.nonce == "" {
		l.nonce = nonce()
	}
	return l.observe(now).Take(l.rival(), now.Time())
}

// release ends this lock's term, if the Lease shows it. It never touches the term
// of another, who may have come since the elector looked.
func (l *Lock) release(ctx context.Context) error {
	l.mu.Lock()
	t := l.term
	var to *coordinationv1.Lease
	err := fmt.Errorf("%w: %w", ErrNotHeld, l.lost())
	if t != nil {
		to, err = l.observe(l.clock.Now()).Release(t.start, v1alpha1.OutcomeStopped)
		// The elector has made up its mind; from here on nothing is claimed.
		t.until = clock.Instant{}
	}
	l.mu.Unlock()
	if err != nil {
		return fmt.Errorf("resourcelock: %w", err)
	}
	got, err := l.client.Update(ctx, to, l.timing.RequestTimeout())
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.see(got)
}

// identify reads who issues the tokens, once.
func (l *Lock) identify(ctx context.Context) error {
	l.mu.Lock()
	known := l.issuer != ""
	l.mu.Unlock()
	if known {
		return nil
	}
	issuer, err := l.client.Issuer(ctx, l.timing.RequestTimeout())
	if err != nil {
		return fmt.Errorf("resourcelock: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.issuer = issuer
	return nil
}

// RecordEvent passes an event of the elector on. The end of its time as a leader
// lets this lock take the Lease anew.
func (l *Lock) RecordEvent(s string) {
	l.mu.Lock()
	if s == stoppedLeading {
		l.term, l.nonce, l.spent = nil, "", nil
	}
	seen := l.seen
	l.mu.Unlock()
	if l.o.EventRecorder == nil || seen == nil {
		return
	}
	subject := &coordinationv1.Lease{ObjectMeta: seen.ObjectMeta}
	subject.Kind, subject.APIVersion = "Lease", coordinationv1.SchemeGroupVersion.String()
	l.o.EventRecorder.Eventf(subject, corev1.EventTypeNormal, "LeaderElection", "%s %s", l.o.Identity, s)
}

// Identity is who this lock holds the Lease as.
func (l *Lock) Identity() string { return l.o.Identity }

// Describe is namespace/name of the Lease.
func (l *Lock) Describe() string { return l.o.Namespace + "/" + l.o.Name }
