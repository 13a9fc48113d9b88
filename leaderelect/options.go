// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderelect

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"k8s.io/client-go/rest"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/fencing"
	"leasehold.dev/internal/holder/message"
	"leasehold.dev/leaderelect/lease"
)

// Options of an Elector.
type Options struct {
	// Config reaches the API server. Required. Its rate limiter and timeout are
	// not used: an Elector's traffic shares nothing with other clients.
	Config *rest.Config
	// Namespace and Name of the Lease. By default LEASE_NAMESPACE and LEASE_NAME
	// of the environment.
	Namespace string
	Name      string
	// Identity is who the holder is, at most 512 printable ASCII characters
	// without a space. Waiting to be granted, it is <podName>_<podUID>, by default
	// from LEASEHOLD_POD_NAME and LEASEHOLD_POD_UID. Competing, it must be
	// different for each process, also after a restart; by default
	// <hostname>_<random>.
	Identity string
	// Compete makes the Elector take the Lease itself, where no controller grants
	// it; nil: it waits for Leasehold's manager to grant it.
	Compete *Compete
	// OneTerm makes Run return with ErrLost when a term is lost, for work that
	// cannot be started twice in one process. Otherwise Run waits for the next
	// term and calls the function again.
	OneTerm bool
	// StopGrace is how long the function may take to return when it is asked to
	// while the term still is its own; 30 s by default. So long the term is
	// renewed. Then Overrun is called, and the term runs out.
	StopGrace time.Duration
	// ReleaseTimeout is how long a release is tried where giving up costs others
	// a wait and nothing else; 10 s by default.
	ReleaseTimeout time.Duration
	// Overrun, if set, is called once for a function that has not returned when it
	// had to: a thirtieth of the duration before the trust in its term ends, or
	// after StopGrace. Nothing else can stop a function that does not heed its
	// context; a program that must not outlive its term ends itself here, with
	// os.Exit.
	Overrun func(*Term)
	// TerminationMessagePath is the file that the container's
	// terminationMessagePath names, by default /dev/termination-log. Waiting to be
	// granted, the Elector appends a line to it that names its term, so that the
	// kubelet's report of the container's end proves the term's end, and the next
	// holder need not wait for the lapse. Competing, it is not used.
	TerminationMessagePath string
	// Logger gets a few lines for each term; none by default.
	Logger *slog.Logger
}

// Compete says how an Elector takes a Lease itself.
type Compete struct {
	// Duration of the terms that this Elector takes, in whole seconds, from 3 s;
	// 15 s by default. Others wait for what the Lease says, so that candidates
	// with different durations may meet.
	Duration time.Duration
	// RenewInterval is the time between two renewals, in whole seconds and at most
	// half of Duration; a third of it by default.
	RenewInterval time.Duration
	// Issuer names the sequence of tokens; by default
	// <UID of namespace kube-system>/<namespace>/<name>, for which the program must
	// be allowed to get that namespace. Two clusters must not share one.
	Issuer string
	// Fresh says that no Lease of this name was deleted while somebody held it. A
	// Lease that shows no holder at any time is then taken at once; otherwise it
	// is first seen unchanged for one duration, since only that proves that the
	// holder of a deleted one has stopped.
	Fresh bool
}

const (
	defaultStopGrace      = 30 * time.Second
	defaultReleaseTimeout = 10 * time.Second
)

// complete fills in defaults, and says what is not usable.
func (o Options) complete(getenv func(string) string) (Options, error) {
	o.Namespace = first(o.Namespace, getenv(v1alpha1.EnvLeaseNamespace))
	o.Name = first(o.Name, getenv(v1alpha1.EnvLeaseName))
	if o.StopGrace == 0 {
		o.StopGrace = defaultStopGrace
	}
	if o.ReleaseTimeout == 0 {
		o.ReleaseTimeout = defaultReleaseTimeout
	}
	o.TerminationMessagePath = first(o.TerminationMessagePath, message.DefaultPath)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.Config == nil:
		return o, errors.New("leaderelect: no Config to reach the API server with")
	case o.Namespace == "" || o.Name == "":
		return o, fmt.Errorf("leaderelect: the Lease is not known: set Namespace and Name, or %s and %s",
			v1alpha1.EnvLeaseNamespace, v1alpha1.EnvLeaseName)
	case o.StopGrace < 0 || o.ReleaseTimeout < 0:
		return o, errors.New("leaderelect: StopGrace and ReleaseTimeout must not be negative")
	}
	var err error
	if o.Identity, err = o.identity(getenv); err != nil {
		return o, err
	}
	if o.Compete != nil {
		o.Compete, err = o.Compete.complete(o.Identity)
	}
	return o, err
}

func (o Options) identity(getenv func(string) string) (string, error) {
	pod, uid := getenv(v1alpha1.EnvPodName), getenv(v1alpha1.EnvPodUID)
	id := o.Identity
	switch {
	case id != "":
	case o.Compete != nil:
		host, err := os.Hostname()
		if err != nil {
			return "", fmt.Errorf("leaderelect: no Identity is set, and the host has no name: %w", err)
		}
		id = host + "_" + random()
	case pod == "" || uid == "":
		return "", fmt.Errorf("leaderelect: who waits for the grant is not known: set Identity, or %s and %s",
			v1alpha1.EnvPodName, v1alpha1.EnvPodUID)
	default:
		id = lease.Holder(pod, uid)
	}
	if err := (fencing.Claim{Issuer: "any", Token: 1, Holder: id}).Validate(); err != nil {
		return "", fmt.Errorf("leaderelect: Identity: %w", err)
	}
	return id, nil
}

func (c Compete) complete(identity string) (*Compete, error) {
	if c.Duration == 0 {
		c.Duration = lease.DefaultDuration(v1alpha1.RenewedByApplication)
	}
	if c.RenewInterval == 0 {
		c.RenewInterval = (c.Duration / 3).Truncate(time.Second)
	}
	issuer := first(c.Issuer, "to be read from the cluster")
	if err := (lease.Rival{Holder: identity, Issuer: issuer, Timing: c.timing()}).Validate(); err != nil {
		return nil, fmt.Errorf("leaderelect: Compete: %w", err)
	}
	if c.Issuer == "" {
		return &c, nil
	}
	if err := fencing.ValidateIssuer(c.Issuer); err != nil {
		return nil, fmt.Errorf("leaderelect: Compete: %w", err)
	}
	return &c, nil
}

func (c Compete) timing() lease.Timing {
	return lease.Timing{Duration: c.Duration, RenewInterval: c.RenewInterval}
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// random returns 128 random bits in hexadecimal.
func random() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // It does not fail: see crypto/rand.
	return hex.EncodeToString(b[:])
}
