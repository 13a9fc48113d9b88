// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1alpha1"
)

var (
	// strangers hold nothing, whatever RBAC grants them.
	strangers = []actor{user, otherPod, namesake, unboundToken, garbageCollector, namespaceController, controllerManager}
	everybody = append([]actor{holder}, strangers...)
)

// forgedSteps must be refused: strangers who do the holder's part, and the holder
// that does more than its part.
var forgedSteps = slices.Concat(
	[]leaseAttempt{
		{name: "creates", actors: everybody, state: absent, write: create, refused: true},
		{name: "creates by an update", actors: everybody, state: absent, write: update, refused: true},
		{name: "deletes", actors: []actor{user, holder, otherPod, unboundToken}, state: live, write: remove, refused: true},
		{name: "deletes by a selector", actors: []actor{user, holder}, state: live, write: removeAll, refused: true},
		{name: "removes the label", actors: everybody, state: live, change: label(""), refused: true},
		{name: "changes the label", actors: everybody, state: live, change: label("false"), refused: true},
		{name: "removes the label and seizes", actors: everybody, state: live, change: both(label(""), hold("me")), refused: true},
		{name: "adds the label", actors: everybody, state: unmanaged, change: label("true"), refused: true},
		{name: "removes the finalizer", actors: everybody, state: live, change: finalizers(), refused: true},
		{name: "takes owners away", actors: []actor{user, holder, otherPod, namespaceController}, state: live, change: owner, refused: true},
		{name: "takes the job away", actors: []actor{user, holder, garbageCollector, controllerManager}, state: ofAJob, change: owners(1), refused: true},
		{name: "takes all owners away", actors: []actor{user, garbageCollector, controllerManager}, state: ofAJob, change: owners(), refused: true},
		{name: "takes the job's control away", actors: []actor{user, garbageCollector}, state: ofAJob, refused: true,
			change: func(_ *testing.T, a attemptOn) { a.OwnerReferences[0].Controller = nil }},

		{name: "confirms", actors: strangers, state: granted, change: confirm, refused: true},
		{name: "renews", actors: strangers, state: live, change: renew, refused: true},
		{name: "reports", actors: strangers, state: live, change: annotate(v1alpha1.AnnotationBehind, "7"), refused: true},
		{name: "releases", actors: strangers, state: live, change: release(v1alpha1.OutcomeStopped), refused: true},
		{name: "seizes", actors: everybody, state: live, change: hold("me"), refused: true},
		{name: "seizes what is free", actors: everybody, state: free, change: hold("me"), refused: true},

		{name: "confirms without a renewal", actors: []actor{holder}, state: granted,
			change: annotate(v1alpha1.AnnotationStarted, firstNonce), refused: true},
		{name: "confirms another start", actors: []actor{holder}, state: live,
			change: both(renew, annotate(v1alpha1.AnnotationStarted, laterNonce)), refused: true},
		{name: "takes its confirmation back", actors: []actor{holder}, state: live,
			change: both(renew, annotate(v1alpha1.AnnotationStarted, "")), refused: true},
		{name: "renews backwards", actors: []actor{holder}, state: live,
			change: func(_ *testing.T, a attemptOn) { moveRenewTime(a.Lease, -time.Second) }, refused: true},
		{name: "removes renewTime", actors: []actor{holder}, state: live,
			change: func(_ *testing.T, a attemptOn) { a.Spec.RenewTime = nil }, refused: true},
		{name: "reports what is no number", actors: []actor{holder}, state: live,
			change: annotate(v1alpha1.AnnotationBehind, "far"), refused: true},
	},
	everyKeyOfTheManager(),
	spec(),
	releases(),
)

// everyKeyOfTheManager is the holder that writes annotations which are not its.
func everyKeyOfTheManager() []leaseAttempt {
	var attempts []leaseAttempt
	for _, key := range []string{
		v1alpha1.AnnotationToken, v1alpha1.AnnotationHolder, v1alpha1.AnnotationTerm, v1alpha1.AnnotationEndRequested,
		v1alpha1.AnnotationBlocked, v1alpha1.AnnotationLongestDuration, v1alpha1.AnnotationIssuer,
		v1alpha1.AnnotationDuration, v1alpha1.AnnotationRenewInterval, v1alpha1.AnnotationTakeUp,
		v1alpha1.AnnotationLockDelay, v1alpha1.AnnotationOverlapPolicy, v1alpha1.AnnotationRenewedBy,
		v1alpha1.AnnotationMinToken, v1alpha1.AnnotationTokenFloor, v1alpha1.AnnotationCandidateOwner,
		v1alpha1.AnnotationCloseOn, v1alpha1.AnnotationClosed, v1alpha1.AnnotationOutcome,
		"leasehold.dev/unknown",
	} {
		attempts = append(attempts, leaseAttempt{name: "writes " + key, actors: []actor{holder, user}, state: live,
			change: annotate(key, "9"), refused: true})
	}
	for _, key := range []string{v1alpha1.AnnotationToken, v1alpha1.AnnotationHolder, v1alpha1.AnnotationLongestDuration} {
		attempts = append(attempts, leaseAttempt{name: "removes " + key, actors: []actor{holder, user}, state: live,
			change: annotate(key, ""), refused: true})
	}
	return append(attempts, leaseAttempt{name: "withdraws the end request", actors: []actor{holder, user}, state: endAsked,
		change: annotate(v1alpha1.AnnotationEndRequested, ""), refused: true})
}

// spec is the holder that changes its term, with a renewal or without.
func spec() []leaseAttempt {
	hour, one := int32(3600), int32(1)
	now := metav1.NowMicro()
	var attempts []leaseAttempt
	for name, change := range map[string]func(*testing.T, attemptOn){
		"lengthens its duration":    func(_ *testing.T, a attemptOn) { a.Spec.LeaseDurationSeconds = &hour },
		"shortens its duration":     func(_ *testing.T, a attemptOn) { a.Spec.LeaseDurationSeconds = &one },
		"changes its acquireTime":   func(_ *testing.T, a attemptOn) { a.Spec.AcquireTime = &now },
		"changes leaseTransitions":  func(_ *testing.T, a attemptOn) { a.Spec.LeaseTransitions = &hour },
		"leaves without a release":  hold(""),
		"removes holderIdentity":    func(_ *testing.T, a attemptOn) { a.Spec.HolderIdentity = nil },
		"hands over to another pod": hold("other-0_uid"),
	} {
		attempts = append(attempts,
			leaseAttempt{name: name, actors: everybody, state: live, change: change, refused: true},
			leaseAttempt{name: name + " with a renewal", actors: []actor{holder}, state: live, change: both(renew, change), refused: true})
	}
	return attempts
}

// releases are those that the protocol does not know.
func releases() []leaseAttempt {
	attempts := []leaseAttempt{
		{name: "releases and closes work that runs for ever", state: live,
			change: both(release(v1alpha1.OutcomeSucceeded), annotate(v1alpha1.AnnotationClosed, string(v1alpha1.ClosedCompleted)))},
		{name: "releases a success without closing", state: liveJob,
			change: both(release(v1alpha1.OutcomeSucceeded), annotate(v1alpha1.AnnotationClosed, ""))},
		{name: "closes a failed run as completed", state: liveJob,
			change: both(release(v1alpha1.OutcomeFailed), annotate(v1alpha1.AnnotationClosed, string(v1alpha1.ClosedCompleted)))},
		{name: "closes without a release", state: liveJob,
			change: annotate(v1alpha1.AnnotationClosed, string(v1alpha1.ClosedCompleted))},
		{name: "releases and suspends", state: liveJob,
			change: both(release(v1alpha1.OutcomeSucceeded), annotate(v1alpha1.AnnotationClosed, string(v1alpha1.ClosedSuspended)))},
		{name: "releases without an outcome", state: live,
			change: both(release(v1alpha1.OutcomeStopped), annotate(v1alpha1.AnnotationOutcome, ""))},
		{name: "releases another token", state: live,
			change: both(release(v1alpha1.OutcomeStopped), annotate(v1alpha1.AnnotationReleasedToken, "1"))},
		{name: "releases and keeps the lease", state: live,
			change: annotate(v1alpha1.AnnotationReleasedToken, "1")},
		{name: "releases and hands over", state: live,
			change: both(release(v1alpha1.OutcomeStopped), hold("other-0_uid"))},
		{name: "releases and clears the foreign holder", state: seized,
			change: both(release(v1alpha1.OutcomeStopped), hold(""))},
		{name: "takes the lease back", state: released, change: func(_ *testing.T, a attemptOn) {
			a.Spec.HolderIdentity = &a.start.Holder
		}},
		{name: "takes the release back", state: released, change: annotate(v1alpha1.AnnotationReleasedToken, "")},
		{name: "reports after its release", state: released, change: annotate(v1alpha1.AnnotationBehind, "7")},
		{name: "renews after its release", state: released, change: renew},
		{name: "confirms after its release", state: released, change: both(renew, annotate(v1alpha1.AnnotationStarted, laterNonce))},
	}
	for _, outcome := range []v1alpha1.Outcome{v1alpha1.OutcomeWithdrawn, v1alpha1.OutcomeLapsed, v1alpha1.OutcomeDied, v1alpha1.OutcomeVouched, "Fine"} {
		attempts = append(attempts, leaseAttempt{name: "releases as " + string(outcome), state: live,
			change: both(release(v1alpha1.OutcomeStopped), annotate(v1alpha1.AnnotationOutcome, string(outcome)))})
	}
	for i := range attempts {
		attempts[i].actors, attempts[i].refused = []actor{holder}, true
	}
	return attempts
}

// foreignSteps are what a holder may not do once spec is not its own.
var foreignSteps = []leaseAttempt{
	{name: "renews what was seized", actors: []actor{holder}, state: seized, change: renew, refused: true},
	{name: "renews what was wiped", actors: []actor{holder}, state: wiped, change: renew, refused: true},
	{name: "takes back what was seized", actors: []actor{holder}, state: seized, change: func(_ *testing.T, a attemptOn) {
		a.Spec.HolderIdentity = &a.start.Holder
	}, refused: true},
}
