// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package model

// rule is a rule of the protocol or of its callers that a configuration can
// leave out, to see that the model then finds what the rule prevents.
type rule uint8

const (
	everyRule rule = iota // Nothing is left out.

	oneObservation
	writesCarryUID
	emptyIsNotFree
	carryUnfinished
	podsCarryTokens
	wipedStaysHolders
	finalizerUntilRecorded
	bornClosed
	openedAsKnown
	oneStartPerToken
	onlyOutlivedIsReleased
	onlyOwnContainer
	sidecarOutlivesNobody
	trustFromRequest
	trustNeedsConfirm
	specDurationFrozen
	durationFromSpec
	longestDuration
	endIsOnlyRequested
	successCloses
	exitZeroAfterCommit
	deathSuccessCloses
	deathOfThisStart
	podReadFirst
	oldPodWrittenFirst
	endedPodNotStamped
	tokenRecordedFirst
	recordGoesForward
	markIsNoProof
	confirmedAfterStamp
)

// String says what is done when the rule is left out.
func (r rule) String() string {
	return map[rule]string{
		everyRule:              "every rule kept",
		oneObservation:         "age from a cache, version from a live read",
		writesCarryUID:         "writes carry the resourceVersion without the UID",
		emptyIsNotFree:         "an empty holder is taken for free",
		carryUnfinished:        "an unfinished term that the owner's status names is forgotten",
		podsCarryTokens:        "a re-created Lease forgets that pods carry a token",
		wipedStaysHolders:      "under Forbid the holder of a wiped Lease is forgotten",
		finalizerUntilRecorded: "the finalizer goes before the outcome is recorded",
		bornClosed:             "a Lease is created open",
		openedAsKnown:          "a new Lease is opened that knows less than its owner",
		oneStartPerToken:       "another nonce under one's own name is taken for one's own",
		onlyOutlivedIsReleased: "another nonce's term is released unchecked",
		onlyOwnContainer:       "an earlier start in another container is released",
		sidecarOutlivesNobody:  "a restarted sidecar releases, though the work runs on",
		trustFromRequest:       "trust is counted from the reply",
		trustNeedsConfirm:      "trust is counted from the observed grant",
		specDurationFrozen:     "a change of configuration changes spec's duration",
		durationFromSpec:       "the holder trusts the configured duration",
		longestDuration:        "the wait is the current duration, not the longest",
		endIsOnlyRequested:     "a live term is cleared from outside to end it",
		successCloses:          "Release(success) does not close",
		exitZeroAfterCommit:    "the agent exits 0 before its release is known committed",
		deathSuccessCloses:     "a proof of death that shows success does not close",
		deathOfThisStart:       "the end of an earlier start is taken for proof",
		podReadFirst:           "a pod is stamped at a version read after the Lease",
		oldPodWrittenFirst:     "a term ends without a write to its pod",
		endedPodNotStamped:     "a pod is stamped although its term is marked as ending",
		tokenRecordedFirst:     "a token above the version is granted unrecorded",
		recordGoesForward:      "a Lease that knows less overwrites the owner's record",
		markIsNoProof:          "a mark that a pod's term ends is taken for its end",
		confirmedAfterStamp:    "a grant confirms for its pod before the pod was stamped",
	}[r]
}

// invariant is a property that must hold after every step.
type invariant uint8

const (
	holds invariant = iota
	s1TokensRise
	s2OneTrusted
	s5PodCarriesItsToken
	s6WorkNeverOverlaps
	s8OneStartPerToken
	s9CompletedStaysSo
	l1EndCanBeProven
)

func (i invariant) String() string {
	return map[invariant]string{
		holds:                "holds",
		s1TokensRise:         "S1: the granted token is not above every earlier one",
		s2OneTrusted:         "S2: a newer grant exists while an earlier term is trusted",
		s5PodCarriesItsToken: "S5: a pod was given the token of a term that is over, or a lower one",
		s6WorkNeverOverlaps:  "S6: work overlaps under Forbid",
		s8OneStartPerToken:   "S8: work started twice with one token",
		s9CompletedStaysSo:   "S9: a grant after completion was recorded",
		l1EndCanBeProven:     "L1: a term that only a proof can end has lost the pod that could prove it",
	}[i]
}

// name is the invariant's number in the design.
func (i invariant) name() string { return i.String()[:2] }
