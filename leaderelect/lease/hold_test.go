// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"leasehold.dev/api/v1alpha1"
)

func unmanage(l *coordinationv1.Lease) { l.Labels = nil }

func TestCheckPassesNobodyButTheHoldersStart(t *testing.T) {
	s := live(t, fence())
	mine := s.start()
	if err := mine.Check(s.record()); err != nil {
		t.Errorf("the holder's own start: %v", err)
	}
	wantErr(t, mine.Check(granted(t, fence()).record()), ErrNotLive)
	other := mine
	other.Nonce = "work.boot-8.x"
	wantOtherStart(t, other.Check(s.record()))
	for name, tc := range map[string]struct {
		start Start
		s     *stored
	}{
		"another holder": {Start{podB, mine.Token, nonceA}, s},
		"another token":  {Start{podA, mine.Token - 1, nonceA}, s},
		"wiped":          {mine, live(t, fence()).edit(wipe)},
		"seized":         {mine, live(t, fence()).edit(seize)},
		"nobody's":       {Start{}, free(t, fence())},
	} {
		t.Run(name, func(t *testing.T) { wantErr(t, tc.start.Check(tc.s.record()), ErrEnded) })
	}
	s.must(s.look(0).Release(mine, v1alpha1.OutcomeStopped))
	wantErr(t, mine.Check(s.record()), ErrEnded)
}

func TestConfirmWritesTheNonceOnceAndIsIdempotent(t *testing.T) {
	s := granted(t, fence())
	mine := s.start()
	s.must(s.look(0).Confirm(mine, epoch))
	first := s.record()
	s.must(s.look(0).Confirm(mine, epoch)) // The reply was lost.
	again := s.record()
	if first.Started != nonceA || again.Started != nonceA || !again.RenewTime.After(first.RenewTime) {
		t.Errorf("confirmed %q, then %q", first.Started, again.Started)
	}
	second := mine
	second.Nonce = "work.boot-7.y"
	_, err := s.look(0).Confirm(second, epoch)
	wantOtherStart(t, err)
	_, err = s.edit(unmanage).look(0).Confirm(mine, epoch)
	wantErr(t, err, ErrUnmanaged)
}

func TestRenewAlwaysMovesRenewTimeAndNeverReacquires(t *testing.T) {
	s := live(t, fence())
	mine := s.start()
	before := s.record().RenewTime
	for _, now := range []time.Time{epoch.Add(time.Hour), epoch.Add(-time.Hour), epoch.Add(time.Hour)} {
		s.must(s.look(0).Renew(mine, now))
		after := s.record().RenewTime
		if !after.After(before) {
			t.Errorf("renewTime went from %s to %s", before, after)
		}
		before = after
	}
	_, err := granted(t, fence()).look(0).Renew(mine, epoch)
	wantErr(t, err, ErrNotLive)
	_, err = live(t, fence()).edit(wipe).look(0).Renew(mine, epoch)
	wantErr(t, err, ErrEnded)
	_, err = live(t, fence()).edit(unmanage).look(0).Renew(mine, epoch)
	wantErr(t, err, ErrUnmanaged)
}

func TestReleaseEndsTheTermAndKeepsTheTokenAsFloor(t *testing.T) {
	toCompletion := with(fence(), func(c *Config) { c.CloseOnSuccess = true })
	for name, tc := range map[string]struct {
		s       *stored
		outcome v1alpha1.Outcome
		phase   Phase
		closed  v1alpha1.Closed
	}{
		"stopped":                          {live(t, toCompletion), v1alpha1.OutcomeStopped, Free, ""},
		"success of endless work":          {live(t, fence()), v1alpha1.OutcomeSucceeded, Free, ""},
		"success closes in the same write": {live(t, toCompletion), v1alpha1.OutcomeSucceeded, Free, v1alpha1.ClosedCompleted},
		"before it was confirmed":          {granted(t, fence()), v1alpha1.OutcomeStopped, Free, ""},
		"after a wipe":                     {live(t, fence()).edit(wipe), v1alpha1.OutcomeStopped, Free, ""},
		"after a seizure, which stands":    {live(t, fence()).edit(seize), v1alpha1.OutcomeStopped, Disputed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := tc.s.record()
			tc.s.must(tc.s.look(0).Release(tc.s.start(), tc.outcome))
			r := tc.s.record()
			if r.Phase() != tc.phase || r.Closed != tc.closed || r.Token != before.Token || r.Released != before.Token || r.Outcome != tc.outcome {
				t.Errorf("after the release: %+v", r)
			}
		})
	}
}

func TestReleaseIsRefused(t *testing.T) {
	s := live(t, fence())
	mine := s.start()
	other := mine
	other.Nonce = "work.boot-8.x"
	_, err := s.look(0).Release(other, v1alpha1.OutcomeStopped)
	wantOtherStart(t, err)
	_, err = s.look(0).Release(Start{podB, mine.Token, nonceA}, v1alpha1.OutcomeStopped)
	wantErr(t, err, ErrEnded)
	s.must(s.look(0).Release(mine, v1alpha1.OutcomeStopped))
	_, err = s.look(0).Release(mine, v1alpha1.OutcomeStopped)
	wantErr(t, err, ErrEnded)
	_, err = s.edit(unmanage).look(0).Release(mine, v1alpha1.OutcomeStopped)
	wantErr(t, err, ErrUnmanaged)
}

func TestAnotherNonceIsReleasedOnlyByALaterRunOfTheSameContainer(t *testing.T) {
	sidecar := with(fence(), func(c *Config) { c.RenewedBy = v1alpha1.RenewedBySidecar })
	for name, tc := range map[string]struct {
		config Config
		nonce  string
		ok     bool
	}{
		"restarted in place":             {fence(), "work.boot-8.y", true},
		"second start by exec":           {fence(), "work.boot-7.y", false},
		"another container":              {fence(), "side.boot-8.y", false},
		"another boot":                   {fence(), "work.boat-8.y", false},
		"an earlier run":                 {fence(), "work.boot-6.y", false},
		"sidecar, whose work may run on": {sidecar, "work.boot-8.y", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := live(t, tc.config)
			mine, err := ParseNonce(tc.nonce)
			if err != nil {
				t.Fatal(err)
			}
			l, err := s.look(0).ReleaseOutlived(Start{Holder: podA, Token: s.record().Token, Nonce: tc.nonce}, mine)
			if !tc.ok {
				wantOtherStart(t, err)
				return
			}
			s.must(l, err)
			if r := s.record(); r.Phase() != Free || r.Outcome != v1alpha1.OutcomeRestarted {
				t.Errorf("after the release: %+v", r)
			}
		})
	}
}

func TestReleaseOutlivedNeedsTheHoldersOpenTerm(t *testing.T) {
	s := live(t, fence())
	mine, _ := ParseNonce("work.boot-8.y")
	_, err := s.look(0).ReleaseOutlived(Start{Holder: podB, Token: s.record().Token}, mine)
	wantErr(t, err, ErrEnded)
	_, err = s.edit(unmanage).look(0).ReleaseOutlived(s.start(), mine)
	wantErr(t, err, ErrUnmanaged)
	s = granted(t, fence()) // No nonce: nothing to outlive.
	_, err = s.look(0).ReleaseOutlived(s.start(), mine)
	var other *OtherStartError
	if !errors.As(err, &other) || other.Error() == "" {
		t.Errorf("got %v", err)
	}
}

func TestConfirmNeedsANonceThatNamesAStart(t *testing.T) {
	t.Parallel()
	for _, nonce := range []string{"", StartedUnknown} {
		s := granted(t, fence())
		start := s.start()
		start.Nonce = nonce
		if got, err := s.look(0).Confirm(start, s.l.Spec.RenewTime.Time); err == nil {
			t.Errorf("nonce %q confirmed: %v", nonce, got.Annotations)
		}
	}
}
