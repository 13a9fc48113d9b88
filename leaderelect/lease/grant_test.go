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

func TestGrantWritesTheWholeTermAtOnce(t *testing.T) {
	s := free(t, fence())
	observed := s.at
	s.edit(func(l *coordinationv1.Lease) {
		for _, key := range []string{v1alpha1.AnnotationBehind, v1alpha1.AnnotationBlocked, v1alpha1.AnnotationSectionP99} {
			l.Annotations[key] = "left from an earlier term"
		}
	})
	s.must(s.look(0).Grant(podA, issuer, Basis{Kind: ByRelease}, epoch))
	want := Record{
		Holder: podA, Transitions: 1, Duration: 15 * time.Second, RenewTime: epoch, AcquireTime: epoch,
		Token: observed + 1, Term: 1, GrantHolder: podA, Issuer: issuer,
		Longest: 15 * time.Second, Config: fence(),
	}
	diff(t, want, s.record())
	for key := range s.l.Annotations {
		switch key {
		case v1alpha1.AnnotationBehind, v1alpha1.AnnotationBlocked, v1alpha1.AnnotationSectionP99, v1alpha1.AnnotationStarted:
			t.Errorf("the grant left %s of an earlier term", key)
		}
	}
}

func TestGrantOnALeaseMadeByHandWithoutAnyAnnotation(t *testing.T) {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		UID: "u", ResourceVersion: "9", Labels: map[string]string{v1alpha1.LabelManaged: "true"},
	}}
	got, err := Observation{Lease: l}.Grant(podA, issuer, Basis{}, epoch)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Parse(got)
	if err != nil {
		t.Fatal(err)
	}
	if r.Phase() != Granted || r.Duration != 40*time.Second || r.Config.OverlapPolicy != v1alpha1.OverlapForbid {
		t.Errorf("absent configuration means Kubelet, Forbid and 40 s; got %+v", r)
	}
	if _, err := (Observation{Lease: l}).SetClosed(v1alpha1.ClosedSuspended); err != nil {
		t.Errorf("closing it: %v", err)
	}
}

func TestAGrantIsConfirmedForAPodInWhichNothingCan(t *testing.T) {
	s := granted(t, with(fence(), func(c *Config) {
		c.RenewedBy, c.Duration, c.RenewInterval = v1alpha1.RenewedByKubelet, 40*time.Second, 10*time.Second
	}))
	if r := s.record(); r.Phase() != Granted {
		t.Errorf("before it is confirmed: %s", r.Phase())
	}
	s.must(s.look(0).ConfirmFor("uid-a", epoch))
	if r := s.record(); r.Phase() != Live || r.Started != "uid-a" {
		t.Errorf("got phase %s, started %q", r.Phase(), r.Started)
	}
	if _, err := s.look(0).ConfirmFor("uid-b", epoch); err == nil {
		t.Error("confirmed for another pod, too")
	}
	if _, err := s.edit(func(l *coordinationv1.Lease) { l.Labels = nil }).look(0).ConfirmFor("uid-a", epoch); err == nil {
		t.Error("confirmed on a Lease that is not managed")
	}
}

func TestGrantIsRefused(t *testing.T) {
	now := metav1.NewTime(epoch)
	closed := func(l *coordinationv1.Lease) {
		l.Annotations[v1alpha1.AnnotationClosed] = string(v1alpha1.ClosedSuspended)
	}
	toCompletion := with(fence(), func(c *Config) { c.CloseOnSuccess = true })
	died := Basis{Kind: ByDeath, Holder: podA, Started: nonceA, Succeeded: true}
	for name, tc := range map[string]struct {
		s     *stored
		basis Basis
		age   time.Duration
		want  error
	}{
		"on a closed lease":                         {free(t, fence()).edit(closed), Basis{}, time.Hour, ErrClosed},
		"on a lease being deleted":                  {free(t, fence()).edit(func(l *coordinationv1.Lease) { l.DeletionTimestamp = &now }), Basis{}, 0, ErrClosed},
		"on a lease that is not managed":            {free(t, fence()).edit(func(l *coordinationv1.Lease) { l.Labels = nil }), Basis{}, 0, ErrUnmanaged},
		"to the next after work that has succeeded": {live(t, toCompletion), died, 0, ErrClosed},
		"while a grant is unconfirmed":              {granted(t, fence()), Basis{Kind: ByLapse}, time.Hour, ErrHeld},
		"before the lapse":                          {live(t, fence()), Basis{Kind: ByLapse}, 15*time.Second - 1, ErrHeld},
		"without an argument":                       {live(t, fence()), Basis{Kind: ByRelease}, time.Hour, ErrHeld},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tc.s.look(tc.age).Grant(podB, issuer, tc.basis, epoch)
			wantErr(t, err, tc.want)
		})
	}
}

func TestGrantToTheNextEndsTheEarlierTermInTheSameWrite(t *testing.T) {
	for name, tc := range map[string]struct {
		basis Basis
		age   time.Duration
		want  v1alpha1.Outcome
	}{
		"lapsed":  {Basis{Kind: ByLapse}, 15 * time.Second, v1alpha1.OutcomeLapsed},
		"dead":    {Basis{Kind: ByDeath, Holder: podA, Started: nonceA}, 0, v1alpha1.OutcomeDied},
		"vouched": {Basis{Kind: ByVouching, Holder: podA, Started: nonceA}, 0, v1alpha1.OutcomeVouched},
	} {
		t.Run(name, func(t *testing.T) {
			s := live(t, fence())
			before := s.record()
			s.must(s.look(tc.age).Grant(podB, issuer, tc.basis, epoch))
			r := s.record()
			if r.Released != before.Token || r.Outcome != tc.want {
				t.Errorf("the earlier term: released %d, %s; want %d, %s", r.Released, r.Outcome, before.Token, tc.want)
			}
			if r.Phase() != Granted || r.Holder != podB || r.Token <= before.Token || r.Started != "" {
				t.Errorf("the new term is %+v", r)
			}
		})
	}
}

func TestDurationIsFrozenAtTheGrantAndTheLongestIsKept(t *testing.T) {
	s := live(t, with(fence(), func(c *Config) { c.Duration, c.RenewInterval = 60*time.Second, 20*time.Second }))
	s.edit(func(l *coordinationv1.Lease) { fence().Write(l) })
	if r := s.record(); r.Duration != 60*time.Second || r.Config.Duration != 15*time.Second {
		t.Fatalf("the term's duration is %s, the next term's %s", r.Duration, r.Config.Duration)
	}
	_, err := s.look(59*time.Second).Grant(podB, issuer, Basis{Kind: ByLapse}, epoch)
	wantErr(t, err, ErrHeld)
	s.must(s.look(60*time.Second).Grant(podB, issuer, Basis{Kind: ByLapse}, epoch))
	if r := s.record(); r.Duration != 15*time.Second || r.Longest != 60*time.Second {
		t.Errorf("after the grant: duration %s, longest %s", r.Duration, r.Longest)
	}
}

func TestAForeignReleaseOfOneSecondDoesNotShortenTheWait(t *testing.T) {
	s := live(t, fence()).edit(wipe)
	if p := s.record().Phase(); p != Disputed {
		t.Fatalf("phase %s", p)
	}
	_, err := s.look(14*time.Second).Grant(podB, issuer, Basis{Kind: ByLapse}, epoch)
	wantErr(t, err, ErrHeld)
	if _, err := s.look(15*time.Second).Grant(podB, issuer, Basis{Kind: ByLapse}, epoch); err != nil {
		t.Errorf("after the longest duration: %v", err)
	}
}

// The whole table of what ends a term, by phase and policy.
func TestEnded(t *testing.T) {
	forbid := with(fence(), func(c *Config) { c.OverlapPolicy = v1alpha1.OverlapForbid })
	death := Basis{Kind: ByDeath, Holder: podA, Started: nonceA}
	for name, tc := range map[string]struct {
		s     *stored
		basis Basis
		age   time.Duration
		held  bool
	}{
		"free":                                        {free(t, forbid), Basis{}, 0, false},
		"granted ends by withdrawal only":             {granted(t, fence()), death, time.Hour, true},
		"live: lapse under Forbid":                    {live(t, forbid), Basis{Kind: ByLapse}, time.Hour, true},
		"live: death under Forbid":                    {live(t, forbid), death, 0, false},
		"live: death of another start":                {live(t, fence()), Basis{Kind: ByDeath, Holder: podA, Started: "work.boot-6.x"}, 0, true},
		"live: death of another pod":                  {live(t, fence()), Basis{Kind: ByDeath, Holder: podB, Started: nonceA}, 0, true},
		"live: vouching about an unconfirmed start":   {live(t, forbid), Basis{Kind: ByVouching, Holder: podA}, 0, true},
		"wiped: under Forbid still the holder's":      {live(t, forbid).edit(wipe), Basis{Kind: ByLapse}, time.Hour, true},
		"wiped: no argument":                          {live(t, fence()).edit(wipe), Basis{}, time.Hour, true},
		"wiped: death of the recorded holder":         {live(t, forbid).edit(wipe), death, 0, false},
		"seized: death of the recorded holder":        {live(t, forbid).edit(seize), death, 14 * time.Second, true},
		"seized: that, and the stranger lapsed":       {live(t, forbid).edit(seize), death, 15 * time.Second, false},
		"seized while free: the stranger is held":     {free(t, forbid).edit(seize), Basis{}, 14 * time.Second, true},
		"seized while free: the stranger lapsed":      {free(t, forbid).edit(seize), Basis{}, 15 * time.Second, false},
		"same holder, another term: its recorded one": {live(t, fence()).edit(nextTerm), Basis{Kind: ByLapse}, 15 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := tc.s.look(tc.age)
			err := o.Ended(tc.s.record(), tc.basis)
			if tc.held {
				wantErr(t, err, ErrHeld)
			} else if err != nil {
				t.Errorf("got %v, want the term ended", err)
			}
		})
	}
}

func nextTerm(l *coordinationv1.Lease) { *l.Spec.LeaseTransitions++ }

func TestWithdrawTakesBackOnlyWhatNobodyConfirmed(t *testing.T) {
	s := granted(t, fence())
	token := s.record().Token
	s.must(s.look(0).Withdraw())
	if r := s.record(); r.Phase() != Free || r.Released != token || r.Outcome != v1alpha1.OutcomeWithdrawn {
		t.Errorf("after the withdrawal: %+v", r)
	}
	_, err := s.look(0).Withdraw()
	wantErr(t, err, ErrEnded)
	_, err = live(t, fence()).look(time.Hour).Withdraw()
	wantErr(t, err, ErrStarted)
	_, err = granted(t, fence()).edit(wipe).look(time.Hour).Withdraw()
	wantErr(t, err, ErrEnded)
	_, err = granted(t, fence()).edit(func(l *coordinationv1.Lease) { l.Labels = nil }).look(0).Withdraw()
	wantErr(t, err, ErrUnmanaged)
}

func TestEndFreesTheLease(t *testing.T) {
	s := live(t, fence()).edit(seize)
	token := s.record().Token
	s.must(s.look(15 * time.Second).End(Basis{Kind: ByLapse}))
	if r := s.record(); r.Phase() != Free || r.Released != token || r.Outcome != v1alpha1.OutcomeLapsed {
		t.Errorf("after the end: %+v", r)
	}
	_, err := s.look(time.Hour).End(Basis{Kind: ByLapse})
	wantErr(t, err, ErrEnded)
	_, err = live(t, fence()).look(0).End(Basis{Kind: ByLapse})
	wantErr(t, err, ErrHeld)
	_, err = live(t, fence()).edit(func(l *coordinationv1.Lease) { l.Labels = nil }).look(0).End(Basis{})
	wantErr(t, err, ErrUnmanaged)
}

func TestADeathThatShowsSuccessClosesInTheSameWrite(t *testing.T) {
	toCompletion := with(fence(), func(c *Config) { c.CloseOnSuccess = true })
	succeeded := Basis{Kind: ByDeath, Holder: podA, Started: nonceA, Succeeded: true}
	for name, tc := range map[string]struct {
		s     *stored
		basis Basis
		want  v1alpha1.Closed
	}{
		"to completion":                 {live(t, toCompletion), succeeded, v1alpha1.ClosedCompleted},
		"for ever":                      {live(t, fence()), succeeded, ""},
		"failed":                        {live(t, toCompletion), Basis{Kind: ByDeath, Holder: podA, Started: nonceA}, ""},
		"no open term, proof unchecked": {free(t, toCompletion).edit(seize), succeeded, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tc.s.must(tc.s.look(time.Hour).End(tc.basis))
			if r := tc.s.record(); r.Closed != tc.want {
				t.Errorf("closed %q, want %q", r.Closed, tc.want)
			}
		})
	}
}

func TestRequestEndOnlyAsks(t *testing.T) {
	s := live(t, fence())
	before, print := s.record(), Fingerprint(s.l)
	s.must(s.look(0).RequestEnd())
	r := s.record()
	if r.EndRequested != before.Token || r.Phase() != Live {
		t.Errorf("after the request: %+v", r)
	}
	if Fingerprint(s.l) != print {
		t.Error("a request to end keeps a dead holder's lease alive")
	}
	_, err := granted(t, fence()).look(0).RequestEnd()
	wantErr(t, err, ErrNotLive)
	_, err = live(t, fence()).edit(func(l *coordinationv1.Lease) { l.Labels = nil }).look(0).RequestEnd()
	wantErr(t, err, ErrUnmanaged)
}

func TestCompletedNeverOpensAgain(t *testing.T) {
	s := free(t, fence())
	s.must(s.look(0).SetClosed(v1alpha1.ClosedSuspended))
	s.must(s.look(0).SetClosed(""))
	if r := s.record(); r.Closed != "" {
		t.Errorf("reopened lease is closed: %s", r.Closed)
	}
	s.must(s.look(0).SetClosed(v1alpha1.ClosedCompleted))
	for _, reason := range []v1alpha1.Closed{"", v1alpha1.ClosedSuspended, v1alpha1.ClosedFailed} {
		_, err := s.look(0).SetClosed(reason)
		wantErr(t, err, ErrClosed)
	}
	s.must(s.look(0).SetClosed(v1alpha1.ClosedCompleted))
	_, err := s.edit(func(l *coordinationv1.Lease) { l.Labels = nil }).look(0).SetClosed("")
	wantErr(t, err, ErrUnmanaged)
}

func TestErrorsSayWhoHolds(t *testing.T) {
	_, err := live(t, fence()).look(2*time.Second).Grant(podB, issuer, Basis{Kind: ByLapse}, epoch)
	if err == nil || !strings.Contains(err.Error(), "unchanged for 2s of 15s") {
		t.Errorf("got %v", err)
	}
	_, err = free(t, fence()).edit(seize).look(0).Grant(podB, issuer, Basis{}, epoch)
	if err == nil || !strings.Contains(err.Error(), "stranger") {
		t.Errorf("got %v", err)
	}
	if got := Holder("web-0", "u"); got != "web-0_u" {
		t.Errorf("Holder = %q", got)
	}
}
