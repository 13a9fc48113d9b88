// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package evidence judges what was recorded of a job: grants as the Lease showed
// them, starts of work and their signs of life, and writes that the fence took.
// It is pure. Times are of one machine, so that they can be compared.
//
// Each check has a test that shows it something that must not be, since a check
// that cannot fail proves nothing.
package evidence

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Start is one process of a job's work.
type Start struct {
	Job, Kind, Holder, Boot string
	Token                   int64
	PID                     int
	// At is when the process began, Last its last sign of life.
	At, Last time.Time
	// RaisedAt is when it had raised the mark; zero: it has not.
	RaisedAt time.Time
	// Beats counts its signs of life, Accepted and Refused its guarded writes.
	Beats, Accepted, Refused int
}

func (s Start) String() string {
	return fmt.Sprintf("%s %s of token %d (%s, %s to %s)", s.Kind, s.Boot, s.Token, s.Holder, clock(s.At), clock(s.Last))
}

// Grant is one grant, as the Lease showed it.
type Grant struct {
	Token  int64
	Term   string
	Holder string
	At     time.Time
	// Renewed is the newest renewal that was seen.
	Renewed time.Time
}

// Write is a guarded write that was accepted.
type Write struct {
	Token int64
	At    time.Time
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// TokensIncrease finds tokens that do not strictly increase, in the order in
// which the grants were seen.
func TokensIncrease(grants []Grant) error {
	var errs []error
	for i := 1; i < len(grants); i++ {
		if before, g := grants[i-1], grants[i]; g.Token <= before.Token {
			errs = append(errs, fmt.Errorf("token %d of %s was granted after token %d of %s", g.Token, g.Holder, before.Token, before.Holder))
		}
	}
	return errors.Join(errs...)
}

// StartsInOrder finds work that started with a token that is not greater than
// that of an earlier start.
func StartsInOrder(starts []Start) error {
	var errs []error
	work := only(starts, "work")
	for i := 1; i < len(work); i++ {
		if before, s := work[i-1], work[i]; s.Token < before.Token {
			errs = append(errs, fmt.Errorf("%v started after %v", s, before))
		}
	}
	return errors.Join(errs...)
}

// OneStartPerToken finds tokens with which work was started more than once.
func OneStartPerToken(starts []Start) error {
	var errs []error
	first := map[int64]Start{}
	for _, s := range only(starts, "work") {
		if before, used := first[s.Token]; used {
			errs = append(errs, fmt.Errorf("token %d was used twice: by %v and %v", s.Token, before, s))
			continue
		}
		first[s.Token] = s
	}
	return errors.Join(errs...)
}

// StartsWereGranted finds work that started with a token of no grant, or of one
// that names another holder.
func StartsWereGranted(starts []Start, grants []Grant) error {
	var errs []error
	for _, s := range starts {
		i := slices.IndexFunc(grants, func(g Grant) bool { return g.Token == s.Token })
		switch {
		case i < 0:
			errs = append(errs, fmt.Errorf("%v was never granted", s))
		case grants[i].Holder != s.Holder:
			errs = append(errs, fmt.Errorf("%v was granted to %s", s, grants[i].Holder))
		}
	}
	return errors.Join(errs...)
}

// NoOverlap finds processes of different tokens that lived at the same time.
func NoOverlap(starts []Start) error {
	var errs []error
	for i, a := range starts {
		for _, b := range starts[i+1:] {
			if a.Token != b.Token && !a.Last.Before(b.At) && !b.Last.Before(a.At) {
				errs = append(errs, fmt.Errorf("work overlaps: %v and %v", a, b))
			}
		}
	}
	return errors.Join(errs...)
}

// StoppedBeforeGrant finds processes that lived when a later token had been
// granted. It holds while the agent of the earlier term is scheduled.
func StoppedBeforeGrant(starts []Start, grants []Grant) error {
	var errs []error
	for _, s := range starts {
		for _, g := range grants {
			if g.Token > s.Token && !s.Last.Before(g.At) {
				errs = append(errs, fmt.Errorf("%v lived when token %d was granted to %s at %s", s, g.Token, g.Holder, clock(g.At)))
			}
		}
	}
	return errors.Join(errs...)
}

// NoStaleWrites finds accepted writes of a token after a greater one had raised
// the mark.
func NoStaleWrites(starts []Start, writes []Write) error {
	var errs []error
	for _, s := range starts {
		if s.RaisedAt.IsZero() {
			continue
		}
		for _, w := range writes {
			if w.Token < s.Token && w.At.After(s.RaisedAt) {
				errs = append(errs, fmt.Errorf("a write of token %d was accepted at %s, after token %d had raised the mark at %s",
					w.Token, clock(w.At), s.Token, clock(s.RaisedAt)))
			}
		}
	}
	return errors.Join(errs...)
}

// only picks the starts of one kind, in their order.
func only(starts []Start, kind string) []Start {
	picked := slices.DeleteFunc(slices.Clone(starts), func(s Start) bool { return s.Kind != kind })
	slices.SortFunc(picked, func(a, b Start) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Token, b.Token)) })
	return picked
}
