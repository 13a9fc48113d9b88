// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1alpha1"
)

const (
	podA   = "a_uid-a"
	podB   = "b_uid-b"
	nonceA = "work.boot-7.x"
	issuer = "cluster/ns/lease"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func fence() Config {
	return Config{
		Duration: 15 * time.Second, RenewInterval: 5 * time.Second,
		TakeUp: DefaultTakeUp, LockDelay: DefaultLockDelay,
		OverlapPolicy: v1alpha1.OverlapFence, RenewedBy: v1alpha1.RenewedByAgent,
		TokenFloor: MaxToken,
	}
}

func with(c Config, edit func(*Config)) Config {
	edit(&c)
	return c
}

// stored is an API server that holds one Lease: a write moves its version on.
type stored struct {
	t  *testing.T
	at int64
	l  *coordinationv1.Lease
}

func free(t *testing.T, c Config) *stored {
	t.Helper()
	l := New(metav1.ObjectMeta{Namespace: "ns", Name: "lease"}, c, Carry{})
	l.UID = "lease-uid"
	s := &stored{t: t, at: 100}
	s.put(l)
	s.must(s.look(0).SetClosed(""))
	return s
}

func granted(t *testing.T, c Config) *stored {
	t.Helper()
	s := free(t, c)
	s.must(s.look(0).Grant(podA, issuer, Basis{Kind: ByRelease}, epoch))
	return s
}

func live(t *testing.T, c Config) *stored {
	t.Helper()
	s := granted(t, c)
	s.must(s.look(0).Confirm(s.start(), epoch.Add(time.Second)))
	return s
}

func (s *stored) put(l *coordinationv1.Lease) {
	s.at++
	s.l = l.DeepCopy()
	s.l.ResourceVersion = itoa(s.at)
}

func (s *stored) must(l *coordinationv1.Lease, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("step refused: %v", err)
	}
	s.put(l)
}

// edit changes the Lease as somebody who does not know the protocol would.
func (s *stored) edit(change func(*coordinationv1.Lease)) *stored {
	l := s.l.DeepCopy()
	change(l)
	s.put(l)
	return s
}

func (s *stored) look(age time.Duration) Observation { return Observation{Lease: s.l, Age: age} }

func (s *stored) record() Record {
	s.t.Helper()
	r, err := Parse(s.l)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *stored) start() Start {
	return Start{Holder: podA, Token: s.record().Token, Nonce: nonceA}
}

func wipe(l *coordinationv1.Lease) {
	one, none := int32(1), ""
	when := metav1.NewMicroTime(l.Spec.RenewTime.Add(time.Second))
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = &none, &one, &when
}

func seize(l *coordinationv1.Lease) {
	holder, transitions := "stranger", int32(1)
	if l.Spec.LeaseTransitions != nil {
		transitions = *l.Spec.LeaseTransitions + 1
	}
	when := metav1.NewMicroTime(epoch.Add(time.Minute))
	l.Spec.HolderIdentity, l.Spec.LeaseTransitions, l.Spec.RenewTime = &holder, &transitions, &when
}

func wantErr(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("got error %v, want %v", got, want)
	}
}

func wantOtherStart(t *testing.T, err error) {
	t.Helper()
	var other *OtherStartError
	if !errors.As(err, &other) {
		t.Fatalf("got error %v, want an OtherStartError", err)
	}
	if other.Nonce != nonceA {
		t.Errorf("the error names %q, want %q", other.Nonce, nonceA)
	}
}

func diff(t *testing.T, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}
