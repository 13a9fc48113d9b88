// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"testing"
	"time"
)

// Every rule is left out once, in a configuration in which the model must then
// find the invariant broken that the rule is for.
var mutants = []struct {
	Without rule
	In      string
	Broken  invariant
}{
	{oneObservation, "network", s2OneTrusted},
	{writesCarryUID, "deletion", s1TokensRise},
	{emptyIsNotFree, "foreign", s2OneTrusted},
	{carryUnfinished, "deletion", s2OneTrusted},
	{carryUnfinished, "deletion, Forbid", s2OneTrusted},
	{podsCarryTokens, "deletion, cold pods", s2OneTrusted},
	{wipedStaysHolders, "foreign, Forbid", s6WorkNeverOverlaps},
	{finalizerUntilRecorded, "deletion", s9CompletedStaysSo},
	{bornClosed, "deletion", s2OneTrusted},
	{openedAsKnown, "deletion", s2OneTrusted},
	{oneStartPerToken, "restart", s8OneStartPerToken},
	{onlyOutlivedIsReleased, "restart", s2OneTrusted},
	{onlyOwnContainer, "second container", s2OneTrusted},
	{sidecarOutlivesNobody, "sidecar, Forbid", s6WorkNeverOverlaps},
	{trustFromRequest, "network", s2OneTrusted},
	{trustNeedsConfirm, "network", s2OneTrusted},
	{specDurationFrozen, "durations", s2OneTrusted},
	{durationFromSpec, "durations", s2OneTrusted},
	{longestDuration, "foreign", s2OneTrusted},
	{endIsOnlyRequested, "network", s2OneTrusted},
	{successCloses, "completion", s9CompletedStaysSo},
	{exitZeroAfterCommit, "completion", s9CompletedStaysSo},
	{deathSuccessCloses, "kubelet, Forbid", s9CompletedStaysSo},
	{deathOfThisStart, "restart", s2OneTrusted},
	{deathOfThisStart, "restart, Forbid", s2OneTrusted},
	{podReadFirst, "stamps", s5PodCarriesItsToken},
	{oldPodWrittenFirst, "stamps", s5PodCarriesItsToken},
	{endedPodNotStamped, "stamps", s5PodCarriesItsToken},
	{tokenRecordedFirst, "raised token", s1TokensRise},
	{recordGoesForward, "deletion", s2OneTrusted},
	{markIsNoProof, "deletion, cold pods", s2OneTrusted},
	{confirmedAfterStamp, "kubelet, Forbid, pods go", l1EndCanBeProven},
}

func TestWithoutARuleAnInvariantBreaks(t *testing.T) {
	for _, mutant := range mutants {
		t.Run(mutant.Without.String()+" in "+mutant.In, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			r := run(without(t, mutant.In, mutant.Without), 0) // Found long before any limit.
			t.Logf("%-68s %s in %2d steps, %8d states, %5.2f s", mutant.Without, r.Broken.name(), r.Depth, r.States, time.Since(began).Seconds())
			if r.Broken == holds {
				t.Fatalf("nothing is broken; want %s", mutant.Broken)
			}
			t.Log(explain(r))
			if r.Broken != mutant.Broken {
				t.Errorf("broken: %s; want %s", r.Broken, mutant.Broken)
			}
		})
	}
}

func without(t *testing.T, name string, left rule) Config {
	t.Helper()
	all := configurations()
	i := slices.IndexFunc(all, func(c Config) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no configuration %q", name)
	}
	c := all[i]
	c.Without = left
	return c
}
