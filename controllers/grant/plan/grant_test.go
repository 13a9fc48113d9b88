// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"leasehold.dev/api/v1alpha1"
)

func compare(t *testing.T, got, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func TestAFreeLeaseGoesToTheNextCandidate(t *testing.T) {
	a, b := pod("a", warm), pod("b", warm)
	check(t, []rule{
		{"no candidate, nothing to do", see(free(), 0), lines()},
		{"a running pod is granted, and stamped",
			see(free(), 0, a), lines("lease Granted a token 100 by Release", "stamp a with 100, gate -1")},
		{"a cold pod loses its gate with the stamp",
			see(free(), 0, pod("a", cold)), lines("lease Granted a token 100 by Release", "stamp a with 100, gate 0")},
		{"a running pod comes before a cold one that is older",
			see(free(), 0, pod("a", cold), pod("b", warm, born(9))), lines("lease Granted b token 100 by Release", "stamp b with 100, gate -1")},
		{"the oldest comes first",
			see(free(), 0, pod("a", warm, born(9)), b), lines("lease Granted b token 100 by Release", "stamp b with 100, gate -1")},
		{"of one age, the first by name",
			see(free(), 0, b, a), lines("lease Granted a token 100 by Release", "stamp a with 100, gate -1")},
		{"one that never lost a term comes before one that did",
			see(free(), 0, pod("a", warm, annotated(v1alpha1.AnnotationEndedToken, "7")), pod("b", cold, born(9))),
			lines("lease Granted b token 100 by Release", "stamp b with 100, gate 0")},
		{"one that lost a term is granted again if there is no other",
			see(free(), 0, pod("a", warm, annotated(v1alpha1.AnnotationEndedToken, "7"))),
			lines("lease Granted a token 100 by Release", "stamp a with 100, gate -1")},
		{"the token is above the last and at least min-token",
			see(after(released(a, v1alpha1.OutcomeStopped), set(v1alpha1.AnnotationMinToken, "5000")), 0, a),
			lines("lease Granted a token 5000 by Release", "stamp a with 5000, gate -1")},
		{"work that was stopped is granted again",
			see(released(a, v1alpha1.OutcomeStopped), 0, a), lines("lease Granted a token 103 by Release", "stamp a with 103, gate -1")},
		{"work that ended by itself is not, under Never: its pod is about to end",
			see(released(a, v1alpha1.OutcomeFailed), 0, a), lines()},
		{"nor is it after success",
			see(released(a, v1alpha1.OutcomeSucceeded), 0, a), lines()},
		{"but a pod whose container starts again is",
			see(released(a, v1alpha1.OutcomeFailed), 0, pod("a", warm, func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure })),
			lines("lease Granted a token 103 by Release", "stamp a with 103, gate -1")},
		{"a closed lease grants nothing", see(free(closed), 0, a), lines()},
		{"a lease that is being deleted grants nothing", see(free(going), 0, a), lines()},
		{"a token above the owner's record waits for it",
			see(free(set(v1alpha1.AnnotationMinToken, "5000"), set(v1alpha1.AnnotationTokenFloor, "4000")), 0, a), lines()},
		{"without a token to mint, the lease says so",
			see(after(free(), func(l *leaseObject) { l.ResourceVersion = "abc" }), 0, a), lines("lease Blocked blocked NoToken")},
	})
}

func TestWhoIsEligible(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		edit []leaseEdit
		want bool
	}{
		"a running pod": {pod("a", warm), nil, true},
		"a gated pod":   {pod("a", cold), nil, true},
		"not one that another gate could hold back":           {pod("a", otherGate, cold), nil, false},
		"not one that is being deleted":                       {pod("a", warm, deleting), nil, false},
		"not one that has succeeded":                          {pod("a", warm, phase(corev1.PodSucceeded)), nil, false},
		"not one that has failed":                             {pod("a", cold, phase(corev1.PodFailed)), nil, false},
		"not an ungated one that does not run yet":            {pod("a", phase(corev1.PodPending)), nil, false},
		"not one whose containers all wait":                   {pod("a", phase(corev1.PodRunning), waiting("CrashLoopBackOff")), nil, false},
		"not a gated one with a forged token":                 {pod("a", cold, annotated(v1alpha1.AnnotationToken, "7")), nil, false},
		"a running one that held the lease before":            {pod("a", warm, annotated(v1alpha1.AnnotationToken, "7")), nil, true},
		"under Kubelet a gated pod":                           {pod("a", cold), []leaseEdit{kubelet}, true},
		"under Kubelet never a running one":                   {pod("a", warm), []leaseEdit{kubelet}, false},
		"one of the owner that the lease names":               {pod("a", warm, ours), []leaseEdit{set(v1alpha1.AnnotationCandidateOwner, owner1)}, true},
		"not one of another owner":                            {pod("a", warm, ours), []leaseEdit{set(v1alpha1.AnnotationCandidateOwner, "owner-2")}, false},
		"nor one that calls the owner by another kind":        {pod("a", warm, ownedBy("batch/v1", owner1)), []leaseEdit{set(v1alpha1.AnnotationCandidateOwner, owner1), ownedLease}, false},
		"but one that knows it in another version":            {pod("a", warm, ownedBy("leasehold.dev/v1", owner1)), []leaseEdit{set(v1alpha1.AnnotationCandidateOwner, owner1), ownedLease}, true},
		"the control: a lease without an owner tells nothing": {pod("a", warm, ownedBy("batch/v1", owner1)), []leaseEdit{set(v1alpha1.AnnotationCandidateOwner, owner1)}, true},
		"not one without a controller, if an owner named":     {pod("a", warm), []leaseEdit{set(v1alpha1.AnnotationCandidateOwner, owner1)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Decide(see(free(tc.edit...), 0, tc.pod))
			if (len(got.Actions) > 0) != tc.want {
				t.Errorf("actions: %v", tell(got))
			}
		})
	}
}

// Under Forbid the proof of an end is in the pod's object, so it must not go
// before somebody has looked.
func TestUnderForbidAPodIsGuardedBeforeItsGrant(t *testing.T) {
	a := pod("a", cold)
	check(t, []rule{
		{"first the finalizer", see(free(forbid), 0, a), lines("guard a")},
		{"then the grant", see(free(forbid), 0, pod("a", cold, finalizer(v1alpha1.FinalizerLease))),
			lines("lease Granted a token 100 by Release", "stamp a with 100, gate 0")},
		{"its owner's finalizer will do", see(free(forbid), 0, pod("a", cold, finalizer(v1alpha1.FinalizerOutcome))),
			lines("lease Granted a token 100 by Release", "stamp a with 100, gate 0")},
		{"a hand-over to an unguarded pod takes one step more",
			see(live(pod("b"), forbid), 0, pod("b", ended(1), finalizer(v1alpha1.FinalizerLease)), a), lines("lease TermEnded Died")},
		{"whoever is deleted without a term may go",
			see(free(forbid), 0, pod("a", cold, deleting, finalizer(v1alpha1.FinalizerLease))), lines("free a")},
		{"whoever holds the term stays",
			see(live(pod("b"), forbid), 0, pod("b", warm, deleting, finalizer(v1alpha1.FinalizerLease), annotated(v1alpha1.AnnotationToken, "100"))),
			lines("await lapse 15s")},
		{"whoever is not deleted keeps it", see(free(forbid, closed), 0, pod("a", cold, finalizer(v1alpha1.FinalizerLease))), lines()},
		{"another finalizer is not ours to take", see(free(forbid), 0, pod("a", cold, deleting, finalizer(v1alpha1.FinalizerOutcome))), lines()},
	})
	t.Run("without a lease, nothing holds a pod", func(t *testing.T) {
		gone := pod("a", deleting, finalizer(v1alpha1.FinalizerLease))
		compare(t, tell(Abandoned([]*corev1.Pod{gone, pod("b", warm)})), lines("free a"))
	})
}
