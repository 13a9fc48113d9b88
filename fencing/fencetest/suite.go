// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Resource is what Suite.Open opens a client of.
type Resource struct {
	// Name is unique to the resource, of lower-case letters, digits and "_",
	// at most 32 bytes. Every client with this name has the same mark and the
	// same journal, and the suite arms it.
	Name string
	// Addr is what to dial: Suite.Store, or a proxy in front of it, which is
	// always TCP. Both are "host:port", or the path of a Unix socket. Empty if
	// Suite.Store is.
	Addr string
	// Pause is for clients without a connection that could be held up, and for
	// naive variants: call it wherever the process could be stopped in the
	// middle of an Append or Raise, such as after the check and before the
	// write. It may block, and is never nil.
	Pause func()
}

// Opener opens a client: connections, caches and whatever else a process has
// to itself. It is called from the goroutine of the test t, to which it adds
// what closes the client.
type Opener func(t *testing.T, r Resource) Target

// Suite describes an adapter on its real store.
type Suite struct {
	// Adapter names it in the table of results, as in "postgres" or, for one of
	// several ways to guard, "postgres/column".
	Adapter string
	// Open opens a client of the adapter.
	Open Opener
	// Store is where the store listens: "host:port", or the path of a Unix
	// socket. Empty for a store without connections.
	Store string
	// Without gives, for each case that cannot be run on this adapter, the
	// reason, which the table of results prints.
	Without map[string]string
	// Naive are the look-alikes of the adapter that have a hole. A case that
	// does not fail on one shows nothing about the adapter.
	Naive []Naive
	// Ops is how many raises and writes CaseContended makes on the adapter; on
	// a naive variant it makes up to 10 000, and ends at the first fault.
	// Default: what EnvOps says, else 2 000, which is quick. 10 000 is a proof.
	Ops int
	// Workers act at the same time in CaseContended. Default: 8.
	Workers int
	// Seed of the choices that are drawn. Default: a new one each time, printed.
	Seed uint64
}

// Naive is a variant of the adapter that looks safe and is not.
type Naive struct {
	// Name says what is wrong with it.
	Name string
	Open Opener
	// CaughtBy are the cases that must fail on it, at least one.
	CaughtBy []string
}

// EnvOps names the environment variable that has the default of Suite.Ops.
const EnvOps = "FENCETEST_OPS"

const (
	defaultOps     = 2_000
	naiveOps       = 10_000
	defaultWorkers = 8
)

// Run runs every case on the adapter as a subtest, and on each naive variant
// the cases that must catch it. Cases run one after the other.
//
// If the environment variable FENCETEST_RESULTS names a file, Run adds a line of
// JSON to it for each result; the program fencetest/cmd/fencetable prints them.
func Run(t *testing.T, s Suite) {
	s.setDefaults()
	for _, fault := range s.faults() {
		t.Fatalf("fencetest.Suite of %s: %s", s.Adapter, fault)
	}
	t.Logf("seed %d", s.Seed)
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) { s.runCase(t, k) })
	}
	for _, n := range s.Naive {
		t.Run("naive: "+n.Name, func(t *testing.T) {
			for _, name := range n.CaughtBy {
				t.Run(name, func(t *testing.T) { s.runNaive(t, n, find(name)) })
			}
		})
	}
}

func (s *Suite) setDefaults() {
	if s.Ops == 0 {
		s.Ops = defaultOps
		if v := os.Getenv(EnvOps); v != "" {
			ops, err := strconv.Atoi(v)
			if err != nil || ops <= 0 {
				ops = -1 // a fault of the suite
			}
			s.Ops = ops
		}
	}
	if s.Workers == 0 {
		s.Workers = defaultWorkers
	}
	if s.Seed == 0 {
		s.Seed = rand.Uint64()
	}
}

// faults are what is wrong with the description itself.
func (s *Suite) faults() []string {
	var faults []string
	if s.Ops < 0 {
		faults = append(faults, "the number of contended operations, which may be set by "+EnvOps+", is not above 0")
	}
	if len(s.Naive) == 0 {
		faults = append(faults, "it has no naive variant, so nothing shows that its cases can fail")
	}
	for name, reason := range s.Without {
		if find(name) == nil || reason == "" {
			faults = append(faults, fmt.Sprintf("Without has no such case, or no reason: %q", name))
		}
	}
	for _, n := range s.Naive {
		unknown := slices.ContainsFunc(n.CaughtBy, func(name string) bool { return find(name) == nil })
		if len(n.CaughtBy) == 0 || unknown {
			faults = append(faults, fmt.Sprintf("naive variant %q needs cases that catch it, not %q", n.Name, n.CaughtBy))
		}
	}
	return faults
}

func (s *Suite) runCase(t *testing.T, k *kase) {
	result := Result{Adapter: s.Adapter, Case: k.name, Seed: s.Seed}
	if reason := s.Without[k.name]; reason != "" {
		result.Outcome, result.Detail = OutcomeNotApplicable, reason
		record(t, result)
		t.Logf("not applicable: %s", reason)
		return
	}
	c := newTrial(t, s, s.Open)
	defer func() { // also after a t.Fatal
		result.Outcome, result.Detail = OutcomePass, c.note
		if len(c.faults) > 0 || t.Failed() {
			result.Outcome, result.Detail = OutcomeFail, strings.Join(c.faults[:min(1, len(c.faults))], "")
		}
		record(t, result)
	}()
	c.run(k)
	for _, fault := range c.faults[:min(10, len(c.faults))] {
		t.Error(fault)
	}
	t.Log(c.note)
}

func (s *Suite) runNaive(t *testing.T, n Naive, k *kase) {
	result := Result{Adapter: s.Adapter, Naive: n.Name, Case: k.name, Seed: s.Seed, Outcome: OutcomeMissed}
	c := newTrial(t, s, n.Open)
	c.naive = true
	defer func() { record(t, result) }()
	c.run(k)
	if len(c.faults) == 0 {
		t.Errorf("it was not caught, so the case shows nothing about the adapter; %s", c.note)
		return
	}
	result.Outcome, result.Detail = OutcomeCaught, c.faults[0]
	t.Logf("caught, as it should be: %d faults, the first: %s", len(c.faults), c.faults[0])
}
