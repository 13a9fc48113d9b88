// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1alpha1"
)

func TestALeaseThatCannotBeUnderstoodDecidesNothing(t *testing.T) {
	for name, tc := range map[string]struct{ key, value, want string }{
		"token with a leading zero":   {v1alpha1.AnnotationToken, "007", "want a decimal integer"},
		"negative token":              {v1alpha1.AnnotationToken, "-1", "want a decimal integer"},
		"token above the greatest":    {v1alpha1.AnnotationToken, "4611686018427387905", "want a decimal integer"},
		"no number":                   {v1alpha1.AnnotationTerm, "x", "want a decimal integer"},
		"released more than granted":  {v1alpha1.AnnotationReleasedToken, "4611686018427387904", "restore it by hand"},
		"duration beyond a year":      {v1alpha1.AnnotationDuration, "31622401", "want at most"},
		"duration too short":          {v1alpha1.AnnotationDuration, "2", "too short"},
		"renew interval does not fit": {v1alpha1.AnnotationRenewInterval, "8", "does not fit"},
		"unknown policy":              {v1alpha1.AnnotationOverlapPolicy, "Maybe", "want one of"},
		"unknown renewer":             {v1alpha1.AnnotationRenewedBy, "Nobody", "want one of"},
	} {
		t.Run(name, func(t *testing.T) {
			s := granted(t, fence()).edit(func(l *coordinationv1.Lease) { l.Annotations[tc.key] = tc.value })
			_, err := Parse(s.l)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Parse: got %v, want %q", err, tc.want)
			}
			if _, err := s.look(time.Hour).Grant(podB, issuer, Basis{Kind: ByLapse}, epoch); err == nil {
				t.Error("a grant was made on it")
			}
		})
	}
}

func TestOnlyTheFirstFaultIsReported(t *testing.T) {
	s := granted(t, fence()).edit(func(l *coordinationv1.Lease) {
		l.Annotations[v1alpha1.AnnotationToken] = "x"
		l.Annotations[v1alpha1.AnnotationTerm] = "y"
		l.Annotations[v1alpha1.AnnotationDuration] = "99999999999"
		l.Annotations[v1alpha1.AnnotationOverlapPolicy] = "z"
	})
	if _, err := Parse(s.l); err == nil || !strings.Contains(err.Error(), v1alpha1.AnnotationToken) {
		t.Errorf("got %v", err)
	}
}

func TestAbsentConfigurationMeansTheStrictest(t *testing.T) {
	r, err := Parse(&coordinationv1.Lease{})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, Config{
		Duration: 40 * time.Second, RenewInterval: 40 * time.Second / 3, TakeUp: DefaultTakeUp, LockDelay: DefaultLockDelay,
		OverlapPolicy: v1alpha1.OverlapForbid, RenewedBy: v1alpha1.RenewedByKubelet, TokenFloor: MaxToken,
	}, r.Config)
	if r.Phase() != Free {
		t.Errorf("an empty Lease is %s", r.Phase())
	}
}

func TestPhaseAndForeign(t *testing.T) {
	carried := New(metav1.ObjectMeta{}, fence(), Carry{Token: 7, Holder: podA, Transitions: 3})
	for name, tc := range map[string]struct {
		l       *coordinationv1.Lease
		phase   Phase
		foreign bool
	}{
		"never granted":                    {free(t, fence()).l, Free, false},
		"granted":                          {granted(t, fence()).l, Granted, false},
		"live":                             {live(t, fence()).l, Live, false},
		"wiped":                            {live(t, fence()).edit(wipe).l, Disputed, false},
		"seized":                           {live(t, fence()).edit(seize).l, Disputed, true},
		"seized while free":                {free(t, fence()).edit(seize).l, Disputed, true},
		"re-acquired by the holder's name": {live(t, fence()).edit(nextTerm).l, Disputed, false},
		"re-created, unfinished":           {carried, Disputed, false},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Parse(tc.l)
			if err != nil {
				t.Fatal(err)
			}
			if r.Phase() != tc.phase || r.Foreign() != tc.foreign {
				t.Errorf("phase %s, foreign %t; want %s, %t", r.Phase(), r.Foreign(), tc.phase, tc.foreign)
			}
		})
	}
}

func TestFingerprintShowsActsOnTheTermOnly(t *testing.T) {
	s := live(t, fence())
	before := Fingerprint(s.l)
	for name, edit := range map[string]func(*coordinationv1.Lease){
		"label":         func(l *coordinationv1.Lease) { l.Labels["x"] = "y" },
		"configuration": func(l *coordinationv1.Lease) { with(fence(), func(c *Config) { c.MinToken = 9 }).Write(l) },
		"closed":        func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.AnnotationClosed] = "Suspended" },
		"blocked":       func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.AnnotationBlocked] = "x: y" },
	} {
		if Fingerprint(live(t, fence()).edit(edit).l) != before {
			t.Errorf("%s: an edit of it keeps a dead holder's lease alive", name)
		}
	}
	for name, edit := range map[string]func(*coordinationv1.Lease){
		"wipe": wipe, "seizure": seize,
		"renewal":    func(l *coordinationv1.Lease) { *l = *renewed(t, s) },
		"other UID":  func(l *coordinationv1.Lease) { l.UID = "other" },
		"other term": func(l *coordinationv1.Lease) { set(l, v1alpha1.AnnotationToken, 999) },
		"other start": func(l *coordinationv1.Lease) {
			l.Annotations[v1alpha1.AnnotationStarted] = "work.boot-9.z"
		},
	} {
		if Fingerprint(live(t, fence()).edit(edit).l) == before {
			t.Errorf("%s: not seen", name)
		}
	}
}

func renewed(t *testing.T, s *stored) *coordinationv1.Lease {
	t.Helper()
	l, err := s.look(0).Renew(s.start(), epoch)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
