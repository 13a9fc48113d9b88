// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1alpha1"
)

func rival(name string) Rival {
	return Rival{Holder: name, Nonce: "nonce." + name + "-1.x", Issuer: issuer,
		Timing: Timing{Duration: 15 * time.Second, RenewInterval: 5 * time.Second}}
}

// contested is a competing Lease that nobody has taken yet.
func contested(t *testing.T) *stored {
	t.Helper()
	l := NewCompeting(metav1.ObjectMeta{Namespace: "ns", Name: "lease"}, rival(podA), Carry{})
	l.UID = "lease-uid"
	s := &stored{t: t, at: 100}
	s.put(l)
	return s
}

func taken(t *testing.T) *stored {
	t.Helper()
	s := contested(t)
	s.must(s.look(15*time.Second).Take(rival(podA), epoch))
	return s
}

// released was taken and released.
func released(t *testing.T) *stored {
	t.Helper()
	s := taken(t)
	s.must(s.look(0).Release(s.starter(podA), v1alpha1.OutcomeStopped))
	return s
}

func (s *stored) starter(name string) Start {
	return Start{Holder: name, Token: s.record().Token, Nonce: rival(name).Nonce}
}

func TestTake(t *testing.T) {
	t.Parallel()
	s := taken(t)
	r := s.record()
	if r.Phase() != Live || r.GrantHolder != podA || r.Token != 101 || r.Term != 1 || r.Started != rival(podA).Nonce || r.Issuer != issuer {
		t.Errorf("record %+v", r)
	}
	if s.l.Labels[v1alpha1.LabelCompeting] != "true" || s.l.Labels[v1alpha1.LabelManaged] != "" {
		t.Errorf("labels %v", s.l.Labels)
	}
	if len(s.l.Finalizers) > 0 {
		t.Error("nobody would remove a finalizer")
	}
	if r.Config.RenewedBy != v1alpha1.RenewedByApplication || r.Config.OverlapPolicy != v1alpha1.OverlapFence || r.Duration != 15*time.Second {
		t.Errorf("config %+v", r.Config)
	}
	s.must(s.look(0).Renew(s.starter(podA), epoch.Add(time.Second)))
	if _, err := s.look(time.Hour).Renew(s.starter(podB), epoch); err == nil {
		t.Error("renewed for another")
	}
}

// TestWhenACompetingLeaseIsTakeable: how long, seen unchanged, before B may take.
func TestWhenACompetingLeaseIsTakeable(t *testing.T) {
	t.Parallel()
	const d = 15 * time.Second
	plain := func(t *testing.T, holder string, seconds int32) *stored {
		transitions, when := int32(3), metav1.NewMicroTime(epoch)
		s := &stored{t: t, at: 100}
		s.put(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "lease", UID: "u"}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: &seconds, LeaseTransitions: &transitions, RenewTime: &when, AcquireTime: &when}})
		return s
	}
	for name, tc := range map[string]struct {
		lease func(t *testing.T) *stored
		rival func(*Rival)
		want  time.Duration
		err   error
	}{
		"released by the protocol":         {lease: released},
		"never granted":                    {lease: contested, want: d},
		"never granted, and vouched for":   {lease: contested, rival: func(r *Rival) { r.Fresh = true }},
		"held":                             {lease: taken, want: d},
		"held, and the word is fresh":      {lease: taken, rival: func(r *Rival) { r.Fresh = true }, want: d},
		"wiped while held":                 {lease: func(t *testing.T) *stored { return taken(t).edit(wipe) }, want: d},
		"seized while held":                {lease: func(t *testing.T) *stored { return taken(t).edit(seize) }, want: d},
		"seized after the release":         {lease: func(t *testing.T) *stored { return released(t).edit(seize) }, want: d},
		"released by a foreigner":          {lease: func(t *testing.T) *stored { return released(t).edit(seize).edit(wipe) }, want: d},
		"confirmation wiped":               {lease: func(t *testing.T) *stored { return taken(t).edit(unstart) }, want: d},
		"a shorter lease waits for theirs": {lease: taken, rival: short, want: d},
		"a longer lease waits for its own": {lease: taken, rival: long, want: 40 * time.Second},
		"once saw it longer":               {lease: taken, rival: func(r *Rival) { r.Longest = time.Minute }, want: time.Minute},
		"an unmarked one, held":            {lease: func(t *testing.T) *stored { return plain(t, "x", 20) }, want: 20 * time.Second},
		"an unmarked one, released":        {lease: func(t *testing.T) *stored { return plain(t, "", 1) }, want: d},
		"an unmarked one, released, fresh": {lease: func(t *testing.T) *stored { return plain(t, "", 1) }, rival: func(r *Rival) { r.Fresh = true }, want: d},
		"a managed one":                    {lease: func(t *testing.T) *stored { return free(t, fence()) }, err: ErrManaged},
		"both labels":                      {lease: func(t *testing.T) *stored { return released(t).edit(manage) }, err: ErrManaged},
		"Forbid": {lease: func(t *testing.T) *stored {
			return released(t).edit(annotate(v1alpha1.AnnotationOverlapPolicy, "Forbid"))
		}, err: ErrManaged},
		"closed by hand": {lease: func(t *testing.T) *stored { return released(t).edit(annotate(v1alpha1.AnnotationClosed, "Suspended")) }, err: ErrClosed},
		"being deleted":  {lease: func(t *testing.T) *stored { return released(t).edit(deleting) }, err: ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, b := tc.lease(t), rival(podB)
			if tc.rival != nil {
				tc.rival(&b)
			}
			got, err := s.look(0).TakeableIn(b)
			if got != tc.want || !errors.Is(err, tc.err) {
				t.Fatalf("takeable in %s, %v; want %s, %v", got, err, tc.want, tc.err)
			}
			if tc.err != nil {
				_, err := s.look(time.Hour).Take(b, epoch)
				wantErr(t, err, tc.err)
				return
			}
			if tc.want > 0 {
				_, err := s.look(tc.want-1).Take(b, epoch)
				wantErr(t, err, ErrHeld)
			}
			before := s.record()
			s.must(s.look(tc.want).Take(b, epoch))
			r := s.record()
			if r.Phase() != Live || r.GrantHolder != podB || r.Token <= before.Token || r.Transitions != before.Transitions+1 {
				t.Errorf("taken as %+v after %+v", r, before)
			}
			if before.Open() && (r.Released != before.Token || r.Outcome != v1alpha1.OutcomeLapsed) {
				t.Errorf("the earlier term ended as %d %s", r.Released, r.Outcome)
			}
			if r.Longest < tc.want {
				t.Errorf("the lease forgets that it was %s long", tc.want)
			}
		})
	}
}

func short(r *Rival) { r.Timing = Timing{Duration: 3 * time.Second, RenewInterval: time.Second} }
func long(r *Rival)  { r.Timing = Timing{Duration: 40 * time.Second, RenewInterval: 10 * time.Second} }

func unstart(l *coordinationv1.Lease) { delete(l.Annotations, v1alpha1.AnnotationStarted) }
func manage(l *coordinationv1.Lease)  { l.Labels[v1alpha1.LabelManaged] = "true" }

func deleting(l *coordinationv1.Lease) {
	when := metav1.NewTime(epoch)
	l.DeletionTimestamp = &when
}

func annotate(key, value string) func(*coordinationv1.Lease) {
	return func(l *coordinationv1.Lease) { l.Annotations[key] = value }
}

func TestTakeRefusesWhatALeaseCannotCarry(t *testing.T) {
	t.Parallel()
	s := released(t)
	for name, change := range map[string]func(*Rival){
		"no holder":           func(r *Rival) { r.Holder = "" },
		"no issuer":           func(r *Rival) { r.Issuer = "" },
		"no nonce":            func(r *Rival) { r.Nonce = "" },
		"the unknown nonce":   func(r *Rival) { r.Nonce = StartedUnknown },
		"part of a second":    func(r *Rival) { r.Timing.Duration += time.Millisecond },
		"part of an interval": func(r *Rival) { r.Timing.RenewInterval = 1500 * time.Millisecond },
		"too short":           func(r *Rival) { r.Timing.Duration = 2 * time.Second },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := rival(podB)
			change(&b)
			if l, err := s.look(time.Hour).Take(b, epoch); err == nil {
				t.Errorf("took it: %v", l)
			}
		})
	}
}

func TestTakeKeepsWhatAPersonConfigured(t *testing.T) {
	t.Parallel()
	s := released(t).edit(annotate(v1alpha1.AnnotationMinToken, "5000")).edit(annotate("example.com/note", "mine"))
	s.must(s.look(0).Take(rival(podB), epoch))
	if r := s.record(); r.Token != 5000 || r.Config.MinToken != 5000 || s.l.Annotations["example.com/note"] != "mine" {
		t.Errorf("token %d, annotations %v", r.Token, s.l.Annotations)
	}
	s.edit(annotate(v1alpha1.AnnotationTokenFloor, "5000"))
	s.must(s.look(0).Release(s.starter(podB), v1alpha1.OutcomeStopped))
	_, err := s.look(0).Take(rival(podA), epoch)
	wantErr(t, err, ErrNotRecorded)
}

func TestNewCompetingRemembersAnUnfinishedTerm(t *testing.T) {
	t.Parallel()
	for name, carry := range map[string]Carry{
		"of somebody": {Token: 70, Holder: podA, Transitions: 4, Longest: time.Minute},
		"of nobody":   {Token: 70, Transitions: 4, Longest: time.Minute},
		"no token":    {Holder: podA, Transitions: 4, Longest: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := NewCompeting(metav1.ObjectMeta{Name: "lease", UID: "second"}, rival(podB), carry)
			s := &stored{t: t, at: 50}
			s.put(l)
			b := rival(podB)
			b.Fresh = true
			if got, err := s.look(0).TakeableIn(b); got != time.Minute || err != nil {
				t.Errorf("takeable in %s, %v", got, err)
			}
			s.must(s.look(time.Minute).Take(b, epoch))
			if r := s.record(); r.Token <= carry.Token || r.Transitions != 5 {
				t.Errorf("token %d of term %d after %+v", r.Token, r.Transitions, carry)
			}
		})
	}
}

func TestManagersStepsDoNotTouchACompetingLease(t *testing.T) {
	t.Parallel()
	s := taken(t)
	for name, step := range map[string]func() (*coordinationv1.Lease, error){
		"grant": func() (*coordinationv1.Lease, error) {
			return s.look(time.Hour).Grant(podB, issuer, Basis{Kind: ByLapse}, epoch)
		},
		"withdraw":    s.look(0).Withdraw,
		"end":         func() (*coordinationv1.Lease, error) { return s.look(time.Hour).End(Basis{Kind: ByLapse}) },
		"end request": s.look(0).RequestEnd,
		"close":       func() (*coordinationv1.Lease, error) { return s.look(0).SetClosed(v1alpha1.ClosedSuspended) },
	} {
		_, err := step()
		if !errors.Is(err, ErrUnmanaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.edit(manage)
	if _, err := s.look(0).Renew(s.starter(podA), epoch); !errors.Is(err, ErrUnmanaged) {
		t.Errorf("renewed a Lease with both labels: %v", err)
	}
}
