// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1alpha1"
)

func TestNewIsClosedAndFreeOrDisputed(t *testing.T) {
	for name, tc := range map[string]struct {
		carry   Carry
		phase   Phase
		token   int64
		longest time.Duration
	}{
		"nothing known":                       {Carry{}, Free, 0, 15 * time.Second},
		"a finished term":                     {Carry{Token: 9, Transitions: 2}, Free, 9, 15 * time.Second},
		"an unfinished term":                  {Carry{Token: 9, Holder: podA, Transitions: 2}, Disputed, 9, 15 * time.Second},
		"unfinished, its token not known":     {Carry{Holder: podA}, Disputed, 1, 15 * time.Second},
		"unfinished, granted for longer":      {Carry{Token: 9, Holder: podA, Longest: time.Minute}, Disputed, 9, time.Minute},
		"finished, in shorter terms than now": {Carry{Token: 9, Longest: time.Second}, Free, 9, 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			l := New(metav1.ObjectMeta{Name: "lease", Finalizers: []string{v1alpha1.FinalizerLease}}, fence(), tc.carry)
			l.ResourceVersion = "500"
			r, err := Parse(l)
			if err != nil {
				t.Fatal(err)
			}
			if r.Closed != v1alpha1.ClosedNew || r.Phase() != tc.phase || r.Token != tc.token || r.Longest != tc.longest {
				t.Errorf("got %+v", r)
			}
			if len(l.Finalizers) != 1 || l.Labels[v1alpha1.LabelManaged] != "true" {
				t.Errorf("finalizers %v, labels %v", l.Finalizers, l.Labels)
			}
			_, err = Observation{Lease: l, Age: time.Hour}.Grant(podB, issuer, Basis{Kind: ByLapse}, epoch)
			wantErr(t, err, ErrClosed)
		})
	}
}

func TestACarriedTermEndsOnlyByLapseOrByADeathThatNeedsNoNonce(t *testing.T) {
	l := New(metav1.ObjectMeta{}, fence(), Carry{Token: 9, Holder: podA})
	l.ResourceVersion = "500"
	delete(l.Annotations, v1alpha1.AnnotationClosed)
	_, err := Observation{Lease: l}.Grant(podB, issuer, Basis{Kind: ByDeath, Holder: podA, Started: nonceA}, epoch)
	wantErr(t, err, ErrHeld)
	for name, tc := range map[string]struct {
		basis Basis
		age   time.Duration
	}{
		"lapse": {Basis{Kind: ByLapse}, 15 * time.Second},
		"death": {Basis{Kind: ByDeath, Holder: podA, Started: StartedUnknown}, 0},
	} {
		got, err := Observation{Lease: l, Age: tc.age}.Grant(podB, issuer, tc.basis, epoch)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if r, _ := Parse(got); r.Token != 500 || r.Released != 9 {
			t.Errorf("%s: token %d, released %d", name, r.Token, r.Released)
		}
	}
}

func TestConfigIsReadAsItWasWritten(t *testing.T) {
	full := Config{
		Duration: 30 * time.Second, RenewInterval: 9 * time.Second, TakeUp: time.Minute, LockDelay: time.Second,
		OverlapPolicy: v1alpha1.OverlapTolerate, RenewedBy: v1alpha1.RenewedByApplication,
		MinToken: 12, TokenFloor: 13, CandidateOwner: "owner", CloseOnSuccess: true,
	}
	l := &coordinationv1.Lease{}
	for _, c := range []Config{full, fence()} { // The second write takes back what it does not set.
		c.Write(l)
		r, err := Parse(l)
		if err != nil {
			t.Fatal(err)
		}
		diff(t, c, r.Config)
	}
}
