// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"slices"
	"strings"
	"testing"

	"leasehold.dev/fencing"
)

const (
	checkThenWrite flaw = "checks, then writes"
	raiseUnlocked  flaw = "checks, then raises"
	missingIsZero  flaw = "takes a missing mark for zero"
	aboveIsGood    flaw = "writes above the mark"
	equalIsGood    flaw = "compares the token alone"
	anyIssuer      flaw = "ignores the issuer"
	forgetsFormer  flaw = "forgets the tokens of issuers before"
	saysTooLittle  flaw = "does not say what refused"
	asText         flaw = "compares tokens as text"
	asFloat        flaw = "compares tokens as floating point"
	splitNames     flaw = "cuts holders at a slash"
	unchecked      flaw = "takes any claim"
	acceptsBare    flaw = "takes a write without a claim"
	staleRead      flaw = "reads from a cache"
	remembers      flaw = "remembers that it was accepted"
	markWithData   flaw = "keeps the mark with the data"
	lostIsRetry    flaw = "takes a lost reply for a refusal"
	lostIsRepeated flaw = "repeats after a lost reply"
	raiseUnknown   flaw = "does not know a raise can be repeated"
)

// flaws are the cases that find each; together they are all cases.
var flaws = map[flaw][]string{
	checkThenWrite: {CaseFrozen, CaseTransaction, CaseRowLock, CaseContended},
	raiseUnlocked:  {CaseContended},
	missingIsZero:  {CaseArm, CaseMarkLost},
	aboveIsGood:    {CaseNotRaised, CaseMarkLost, CaseRestored},
	equalIsGood:    {CaseCollision, CaseConcurrentRaise},
	anyIssuer:      {CaseIssuer},
	forgetsFormer:  {CaseIssuer},
	saysTooLittle:  {CaseWrite, CaseRaise, CaseBehind},
	asText:         {CaseNumbers},
	asFloat:        {CaseNumbers},
	splitNames:     {CaseNames},
	unchecked:      {CaseOmitted},
	acceptsBare:    {CaseOmitted},
	staleRead:      {CaseReadBeforeRaise},
	remembers:      {CaseWrite, CaseRestored},
	markWithData:   {CaseDeleted},
}

var wireFlaws = map[flaw][]string{
	lostIsRetry:    {CaseLostWrite},
	lostIsRepeated: {CaseLostWrite},
	raiseUnknown:   {CaseLostRaise},
}

// TestRun runs the suite on a sound store in memory, and each case on a flaw
// that it must find.
func TestRun(t *testing.T) {
	m := &memory{resources: map[string]*resource{}}
	t.Run("in this process", func(t *testing.T) {
		none := "there is no connection"
		Run(t, Suite{
			Adapter: "memory", Open: m.opener(""), Naive: m.naive(flaws),
			Without: map[string]string{CaseLostWrite: none, CaseLostRaise: none},
		})
	})
	t.Run("over a connection", func(t *testing.T) {
		Run(t, Suite{Adapter: "memory/tcp", Open: m.opener(""), Naive: m.naive(wireFlaws), Store: serve(t, m)})
	})
}

func (m *memory) naive(flaws map[flaw][]string) []Naive {
	var all []Naive
	for f, by := range flaws {
		all = append(all, Naive{Name: string(f), Open: m.opener(f), CaughtBy: by})
	}
	return all
}

// TestEveryCaseFindsSomething: a case that finds no flaw proves nothing.
func TestEveryCaseFindsSomething(t *testing.T) {
	t.Parallel()
	var found []string
	for _, by := range flaws {
		found = append(found, by...)
	}
	for _, by := range wireFlaws {
		found = append(found, by...)
	}
	for _, k := range cases {
		if !slices.Contains(found, k.name) {
			t.Errorf("case %q finds no flaw", k.name)
		}
	}
}

func TestSuiteFaults(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]Suite{
		"no naive variant": {},
		"no such case":     {Without: map[string]string{"nonsense": "why"}, Naive: []Naive{{CaughtBy: []string{CaseArm}}}},
		"no reason":        {Without: map[string]string{CaseArm: ""}, Naive: []Naive{{CaughtBy: []string{CaseArm}}}},
		"needs cases":      {Naive: []Naive{{}}},
		`"nonsense"`:       {Naive: []Naive{{CaughtBy: []string{"nonsense"}}}},
	} {
		if faults := s.faults(); len(faults) != 1 || !strings.Contains(faults[0], want) {
			t.Errorf("faults %q, want one with %q", faults, want)
		}
	}
}

// TestLinearizable: the check of histories finds what a journal alone does not
// show.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	a, b := claim(1), claim(2)
	raise := func(c fencing.Claim, err error) (call, reply) {
		return call{kind: kindRaise, claim: c}, reply{err: err}
	}
	write := func(c fencing.Claim, nonce string, err error) (call, reply) {
		return call{kind: kindAppend, claim: c, nonce: nonce}, reply{err: err}
	}
	read := func(journal ...Entry) (call, reply) { return call{kind: kindRead}, reply{seen: journal} }
	a1 := Entry{a.Token, a.Holder, "a1"}
	one := []Entry{a1}
	type op struct {
		in  call
		out reply
	}
	ops := func(pairs ...func() (call, reply)) []op {
		var all []op
		for _, p := range pairs {
			in, out := p()
			all = append(all, op{in, out})
		}
		return all
	}
	of := func(in call, out reply) func() (call, reply) { return func() (call, reply) { return in, out } }
	tests := []struct {
		name  string
		ops   []op
		final []Entry
		good  bool
	}{
		{"take-over", ops(of(raise(a, nil)), of(write(a, "a1", nil)), of(raise(b, nil)), of(read(a1)), of(write(a, "a2", fencing.ErrFenced))), one, true},
		{"unknown write done", ops(of(raise(a, nil)), of(write(a, "a1", fencing.ErrUnknown)), of(read(a1))), one, true},
		{"unknown write not done", ops(of(raise(a, nil)), of(write(a, "a1", fencing.ErrUnknown)), of(read())), nil, true},
		{"unknown write done late", ops(of(raise(a, nil)), of(write(a, "a1", fencing.ErrUnknown)), of(read()), of(read(a1))), one, true},
		{"unknown write done after the raise", ops(of(raise(a, nil)), of(write(a, "a1", fencing.ErrUnknown)), of(raise(b, nil)), of(read()), of(read(a1))), one, false},
		{"stale write accepted", ops(of(raise(a, nil)), of(raise(b, nil)), of(write(a, "a1", nil))), one, false},
		{"rightful write refused", ops(of(raise(a, nil)), of(write(a, "a1", fencing.ErrFenced))), nil, false},
		{"write before its raise", ops(of(write(a, "a1", nil)), of(raise(a, nil))), one, false},
		{"retry was done", ops(of(raise(a, nil)), of(write(a, "a1", fencing.ErrRetry)), of(read(a1))), one, false},
		{"stale read", ops(of(raise(a, nil)), of(write(a, "a1", nil)), of(read())), one, false},
		{"acknowledged write lost", ops(of(raise(a, nil)), of(write(a, "a1", nil))), nil, false},
		{"read of another past", ops(of(raise(a, nil)), of(write(a, "a1", nil)), of(read(Entry{1, "x", "x"}))), one, false},
		{"mark went back", ops(of(raise(b, nil)), of(raise(a, nil))), nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var r recorder
			for i, o := range tt.ops {
				r.do(i, o.in, func() reply { return o.out })
			}
			if err := r.linearizable(issuer, tt.final); (err == nil) != tt.good {
				t.Errorf("linearizable: %v, want it good: %v", err, tt.good)
			}
		})
	}
}
