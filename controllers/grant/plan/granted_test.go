// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"leasehold.dev/api/v1alpha1"
)

var (
	stamped = annotated(v1alpha1.AnnotationToken, "100")
	marked  = annotated(v1alpha1.AnnotationEndedToken, "100")
)

func TestAGrantIsStampedAndAwaitsItsTakeUp(t *testing.T) {
	a := pod("a", warm)
	late := see(granted(a), time.Second, pod("a", cold))
	late.HolderReadLate = true
	check(t, []rule{
		{"a pod without the token is stamped", see(granted(a), time.Second, a),
			lines("stamp a with 100, gate -1", "await take-up 5m0s")},
		{"a pod that still has the gate is stamped, and the gate removed", see(granted(a), time.Second, pod("a", cold)),
			lines("stamp a with 100, gate 0", "await take-up 5m0s")},
		{"a stamped pod is left alone", see(granted(a), time.Second, pod("a", warm, stamped)), lines("await take-up 5m0s")},
		{"a token of an earlier grant is replaced", see(granted(a), time.Second, pod("a", warm, annotated(v1alpha1.AnnotationToken, "7"))),
			lines("stamp a with 100, gate -1", "await take-up 5m0s")},
		{"a mark of an earlier term does not hinder", see(granted(a), time.Second, pod("a", warm, annotated(v1alpha1.AnnotationEndedToken, "7"))),
			lines("stamp a with 100, gate -1", "await take-up 5m0s")},
		{"a pod that was read after the lease is not stamped", late, lines("await take-up 5m0s")},
		{"no lapse counts before the confirmation", see(granted(a), 2*term, pod("a", warm, stamped)), lines("await take-up 5m0s")},
		{"what blocked before the grant is over", see(after(granted(a), blockedBy(v1alpha1.BlockedInvalidLease)), 0, pod("a", warm, stamped)),
			lines("lease Unblocked", "await take-up 5m0s")},
	})
}

func TestAGrantIsWithdrawnMarkFirstThenTheLeaseThenThePod(t *testing.T) {
	a := pod("a", warm)
	gone := see(granted(a), time.Second)
	check(t, []rule{
		{"the lease was closed", see(after(granted(a), closed), 0, a), lines("mark a with 100", "lease Withdrawn Withdrawn closed Suspended")},
		{"the lease is being deleted", see(after(granted(a), going), 0, a), lines("mark a with 100", "lease Withdrawn Withdrawn")},
		{"the pod is gone", gone, lines("lease Withdrawn Withdrawn")},
		{"the pod is being deleted", see(granted(a), 0, pod("a", cold, deleting)), lines("mark a with 100", "lease Withdrawn Withdrawn")},
		{"the pod has ended", see(granted(a), 0, pod("a", ended(1))), lines("mark a with 100", "lease Withdrawn Withdrawn")},
		{"a late pod of others stays", see(granted(a), takeUp, pod("a", warm, stamped)),
			lines("mark a with 100", "lease Withdrawn Withdrawn blocked TakeUpFailed")},
		{"our own late pod is removed last", see(granted(a), takeUp, pod("a", ours, stamped)),
			lines("mark a with 100", "lease Withdrawn Withdrawn blocked TakeUpFailed", "remove a")},
		{"our own pod is removed for a closed lease too", see(after(granted(a), closed), 0, pod("a", ours, cold)),
			lines("mark a with 100", "lease Withdrawn Withdrawn closed Suspended", "remove a")},
		{"a moment before the deadline it is not late", see(granted(a), takeUp-1, pod("a", ours, stamped)), lines("await take-up 5m0s")},
		{"a marked pod can never be stamped, so the grant goes back", see(granted(a), 0, pod("a", cold, marked)),
			lines("mark a with 100", "lease Withdrawn Withdrawn")},
		{"but one that was stamped before the mark may still confirm", see(granted(a), 0, pod("a", warm, stamped, marked)),
			lines("await take-up 5m0s")},
	})
}

func TestTheBlockedTextSaysWhatTheStartWaitsFor(t *testing.T) {
	a := pod("a", warm)
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"the scheduler's words": {pod("a", unschedulable("0/3 nodes are available")), "not scheduled: 0/3 nodes are available"},
		"the image":             {pod("a", waiting("ImagePullBackOff")), "container work: ImagePullBackOff"},
		"else the agent":        {pod("a", warm), "its agent has not confirmed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := Decide(see(granted(a), takeUp, tc.pod))
			text := p.Actions[1].(UpdateLease).Lease.Annotations[v1alpha1.AnnotationBlocked]
			if want := "TakeUpFailed: pod a: " + tc.want; text != want {
				t.Errorf("blocked: %q, want %q", text, want)
			}
		})
	}
	if got := waitingFor(nil); got != "there is no pod" {
		t.Error(got)
	}
}

func TestTheTextOfAFailedTakeUpStandsUntilTheNextGrant(t *testing.T) {
	a := pod("a", warm)
	failed := blockedBy(v1alpha1.BlockedTakeUpFailed)
	check(t, []rule{
		{"it stands while there is no other candidate", see(after(free(), failed), 0), lines()},
		{"the next grant clears it", see(after(free(), failed), 0, a), lines("lease Granted a token 100 by Release", "stamp a with 100, gate -1")},
		{"any other reason is over when the lease is free", see(after(free(), blockedBy(v1alpha1.BlockedForeignHolder)), 0), lines("lease Unblocked")},
		{"also when it is closed", see(after(free(closed), blockedBy(v1alpha1.BlockedInvalidLease)), 0), lines("lease Unblocked")},
	})
}

// The state in which whoever wrote the end of a term got no further.
func TestWhatAnEndedTermShouldHaveRemovedIsRemovedLater(t *testing.T) {
	a, b := pod("a", warm), pod("b", warm)
	end := func(outcome v1alpha1.Outcome) *leaseObject { return released(a, outcome) }
	refused := see(end(v1alpha1.OutcomeLapsed), 0, pod("a", warm, marked))
	refused.EvictionRefused = map[uidType]bool{"uid-a": true}
	second := after(end(v1alpha1.OutcomeLapsed), set(v1alpha1.AnnotationToken, "103"), set(v1alpha1.AnnotationHolder, holderOf(b)),
		set(v1alpha1.AnnotationTerm, "2"), spec(holderOf(b)), func(l *leaseObject) { two := int32(2); l.Spec.LeaseTransitions = &two })
	check(t, []rule{
		{"a lapsed pod", see(end(v1alpha1.OutcomeLapsed), 0, pod("a", warm, marked)), lines("remove a")},
		{"a vouched one", see(end(v1alpha1.OutcomeVouched), 0, pod("a", warm, marked)), lines("remove a")},
		{"also while the next one holds", see(second, 0, pod("a", warm, marked), pod("b", warm, annotated(v1alpha1.AnnotationToken, "103"))),
			lines("remove a", "await lapse 15s")},
		{"a withdrawn pod of ours", see(end(v1alpha1.OutcomeWithdrawn), 0, pod("a", ours, cold, marked)), lines("remove a")},
		{"never a withdrawn pod of others", see(end(v1alpha1.OutcomeWithdrawn), 0, pod("a", phase(corev1.PodPending), marked)), lines()},
		{"not one that released of itself", see(end(v1alpha1.OutcomeStopped), 0, pod("a", warm, marked)),
			lines("lease Granted a token 103 by Release", "stamp a with 103, gate -1")},
		{"one that could not be marked, by what the lease says", see(end(v1alpha1.OutcomeLapsed), 0, pod("a", warm)), lines("remove a")},
		{"not one of an earlier term", see(released(b, v1alpha1.OutcomeLapsed), 0, pod("a", warm, annotated(v1alpha1.AnnotationEndedToken, "7"))),
			lines("lease Granted a token 103 by Release", "stamp a with 103, gate -1")},
		{"not one that is being deleted", see(end(v1alpha1.OutcomeLapsed), 0, pod("a", warm, marked, deleting)), lines()},
		{"another candidate is granted beside", see(end(v1alpha1.OutcomeLapsed), 0, pod("a", warm, marked), b),
			lines("lease Granted b token 103 by Release", "stamp b with 103, gate -1", "remove a")},
		{"one that a disruption budget keeps is a candidate again", refused,
			lines("lease Granted a token 103 by Release", "stamp a with 103, gate -1")},
	})
}

func TestALeaseThatCannotBeUnderstoodIsBlockedAndNothingElse(t *testing.T) {
	a := pod("a", warm)
	bad := set(v1alpha1.AnnotationDuration, "soon")
	check(t, []rule{
		{"free", see(free(bad), 0, a), lines("lease Blocked blocked InvalidLease")},
		{"held", see(after(live(a), bad), time.Hour, pod("a", warm, deleting, finalizer(v1alpha1.FinalizerLease))), lines("lease Blocked blocked InvalidLease")},
		{"without annotations to read", see(after(free(), func(l *leaseObject) { l.Annotations = nil; l.ResourceVersion = "x" }), 0, pod("a", cold, finalizer(v1alpha1.FinalizerOutcome))),
			lines("lease Blocked blocked NoToken")},
	})
	t.Run("the text is written once", func(t *testing.T) {
		l := after(free(), bad)
		first := Decide(see(l, 0, a)).Actions[0].(UpdateLease).Lease
		if text := first.Annotations[v1alpha1.AnnotationBlocked]; !strings.Contains(text, "soon") {
			t.Errorf("the text does not name the value: %s", text)
		}
		compare(t, tell(Decide(see(first, 0, a))), lines())
	})
	t.Run("a lease that is not managed is never written", func(t *testing.T) {
		l := after(free(), bad, func(l *leaseObject) { l.Labels = nil })
		compare(t, tell(Decide(see(l, 0, a))), lines())
		compare(t, tell(Decide(see(after(free(), func(l *leaseObject) { l.Labels = nil }), 0, a))), lines())
	})
}
