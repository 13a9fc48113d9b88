// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"

	"leasehold.dev/leaderelect/resourcelock"
)

// leaseName is the managers' own Lease.
const leaseName = "leasehold-manager"

// defaultElectionDuration is that of controller-runtime and client-go, as are the
// proportions of the times that follow from it.
const defaultElectionDuration = 15 * time.Second

// election is when an elector of the managers does what.
type election struct{ lease, renewDeadline, retryPeriod time.Duration }

func electionOf(duration time.Duration) election {
	if duration == 0 {
		duration = defaultElectionDuration
	}
	return election{lease: duration, renewDeadline: duration * 2 / 3, retryPeriod: duration * 2 / 15}
}

// namespaceFile is where a pod finds its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// namespace is that of the managers' own Lease.
func (o Options) namespace(file string) (string, error) {
	if o.LeaderElectNS != "" {
		return o.LeaderElectNS, nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("this is no pod, so set --leader-election-namespace: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// newLock returns the managers' lock. It needs no more permissions than client-go's
// and those that the controllers have.
func newLock(config *rest.Config, o Options, recorder *lateRecorder) (*resourcelock.Lock, error) {
	namespace, err := o.namespace(namespaceFile)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("the manager's name: %w", err)
	}
	return resourcelock.New(resourcelock.Options{
		Config: config, Namespace: namespace, Name: leaseName, Identity: host + "_" + rand.Text(),
		LeaseDuration: electionOf(o.electionDuration).lease,
		// Two managers at once waste work and harm nothing; a first start that waits
		// for one duration would.
		Fresh:         true,
		EventRecorder: recorder,
	})
}

// lateRecorder passes the elector's events on to the manager's recorder, which is
// there only once the manager is, and so after the lock.
type lateRecorder struct{ to events.EventRecorder }

// Eventf is called by the elector.
func (r *lateRecorder) Eventf(about runtime.Object, kind, reason, message string, args ...any) {
	r.to.Eventf(about, nil, kind, reason, "Elect", message, args...)
}
