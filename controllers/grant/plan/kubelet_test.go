// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

const kubeletTerm = 40 * time.Second

var wasReady = annotated(v1alpha1.AnnotationWasReady, "100")

// rejected is what a kubelet says of a pod that it does not admit.
func rejected(p *podObject) {
	p.Status.Phase, p.Status.Reason = corev1.PodFailed, "OutOfcpu"
	p.Status.Message = "Pod was rejected: Node didn't have enough resource: cpu"
}

// finalReport is its last word on a pod that is deleted.
func finalReport(p *podObject) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "PodFailed"}}
}

// quiet returns a look at a Lease for whose holder the kubelet speaks.
func quiet(l *leaseObject, age, silence time.Duration, wasReady bool, pods ...*podObject) Observed {
	o := see(l, age, pods...)
	o.Silence, o.HolderWasReady = silence, wasReady
	return o
}

func TestWhereTheKubeletSpeaksForTheHolder(t *testing.T) {
	forty := set(v1alpha1.AnnotationDuration, "40")
	a, b := pod("a", cold), pod("b", cold)
	held := pod("a", warm, stamped, wasReady)
	fence := confirmed(a, forty)
	strict := confirmed(a, forty, forbid)
	guardedB := pod("b", cold, finalizer(v1alpha1.FinalizerLease))
	const long = time.Hour
	check(t, []rule{
		{"a grant that was not stamped is stamped, under a live term", quiet(fence, 0, 0, false, a),
			lines("stamp a with 100, gate 0", "await lapse 40s", "await take-up 5m0s")},
		{"until the first ready, the take-up deadline is awaited", quiet(fence, time.Second, time.Second, false, held),
			lines("await lapse 40s", "await take-up 5m0s")},
		{"then only silence", quiet(fence, time.Second, time.Second, true, held), lines("await lapse 40s")},
		{"its expiry only removes the pod", quiet(fence, takeUp, 0, false, held, b), lines("remove a", "await lapse 40s")},
		{"and is not awaited again when it is past", quiet(fence, takeUp, 0, false, pod("a", warm, stamped, deleting), b), lines("await lapse 40s")},
		{"silence for the duration is a lapse", quiet(fence, long, kubeletTerm, true, held, b),
			lines("mark a with 100", "lease Granted b token 101 by Lapse", "stamp b with 101, gate -1", "remove a")},
		{"the age of the lease is none", quiet(fence, long, kubeletTerm-1, true, held, b), lines("await lapse 40s")},
		{"nor is a silence from before the grant", quiet(fence, time.Second, long, true, held, b), lines("await lapse 40s")},
		{"under Forbid silence blocks and removes the pod", quiet(strict, long, kubeletTerm, true, held, guardedB),
			lines("lease Blocked blocked HolderUnreachable", "remove a")},
		{"that it has been ready is written down", quiet(fence, time.Second, time.Second, true, pod("a", warm, stamped)),
			lines("note that a was ready with 100", "await lapse 40s")},
		{"for this term", quiet(fence, time.Second, time.Second, true, pod("a", warm, stamped, annotated(v1alpha1.AnnotationWasReady, "7"))),
			lines("note that a was ready with 100", "await lapse 40s")},
		{"not on a pod that goes", quiet(fence, time.Second, time.Second, true, pod("a", warm, stamped, deleting)), lines("await lapse 40s")},
		{"a pod that its node refused is removed at once, for its kubelet's report", quiet(strict, time.Second, 0, false, pod("a", stamped, rejected), guardedB),
			lines("remove a", "await lapse 40s")},
		{"once", quiet(strict, time.Second, 0, false, pod("a", stamped, rejected, deleting), guardedB), lines("await lapse 40s")},
		{"but that its phase says so ends no term", quiet(strict, long, kubeletTerm, false, pod("a", stamped, rejected, deleting), guardedB),
			lines("lease Blocked blocked HolderUnreachable")},
		{"the report does", quiet(strict, time.Second, 0, false, pod("a", ended(137), stamped, rejected, deleting, finalReport), guardedB),
			lines("lease Granted b token 101 by Death", "stamp b with 101, gate -1")},
		{"a pod that ended without restart is dead", quiet(strict, long, 0, true, pod("a", ended(0), stamped), guardedB),
			lines("lease Granted b token 101 by Death", "stamp b with 101, gate -1")},
		{"a pod deleted before it was bound is dead, and marked as it still has the gate", quiet(strict, long, 0, false, pod("a", cold, deleting), guardedB),
			lines("mark a with 100", "lease Granted b token 101 by Death", "stamp b with 101, gate -1")},
		{"a foreign holder's silence is the lease's, not the kubelet's", quiet(after(free(kubelet, forty), spec("somebody")), kubeletTerm, 0, false, b),
			lines("lease Granted b token 100 by Lapse", "stamp b with 100, gate -1")},
		{"a live node does not keep a foreign holder, if the recorded one is dead", quiet(after(confirmed(a, forty, forbid), spec("somebody")), kubeletTerm, 0, true, pod("a", ended(1)), guardedB),
			lines("lease Granted b token 101 by Death", "stamp b with 101, gate -1")},
		{"but keeps a seized term", quiet(after(fence, func(l *leaseObject) {}), long, time.Second, true, held), lines("await lapse 40s")},
	})
}

// What the controller does for a pod in which nothing confirms.
func TestAColdGrantIsStampedThenConfirmedAndOnlyThenLosesItsGate(t *testing.T) {
	a := pod("a", cold)
	carrying := pod("a", cold, stamped)
	guard := finalizer(v1alpha1.FinalizerLease)
	late := see(granted(a, kubelet), time.Second)
	late.Holder, late.HolderReadLate = pod("a", cold, stamped), true
	check(t, []rule{
		{"a grant: the stamp leaves the gate", see(free(kubelet), 0, a), lines("lease Granted a token 100 by Release", "stamp a with 100, gate -1")},
		{"the control: where an agent confirms, it goes at once", see(free(), 0, a), lines("lease Granted a token 100 by Release", "stamp a with 100, gate 0")},
		{"a stamp that was missed is made up for", see(granted(a, kubelet), 0, a), lines("stamp a with 100, gate -1", "await take-up 5m0s")},
		{"a pod that carries the token is confirmed for", see(granted(a, kubelet), 0, carrying),
			lines("lease Confirmed", "stamp a with 100, gate 0", "await take-up 5m0s")},
		{"which is no block any more", see(after(granted(a, kubelet), blockedBy(v1alpha1.BlockedPodWriteRefused)), 0, carrying),
			lines("lease Confirmed", "stamp a with 100, gate 0", "await take-up 5m0s")},
		{"one that was read late is not written yet", late, lines("lease Confirmed", "await take-up 5m0s")},
		{"not a pod that is gone", see(granted(a, kubelet), 0), lines("lease Withdrawn Withdrawn")},
		{"nor one that is going", see(granted(a, kubelet), 0, pod("a", cold, stamped, deleting)), lines("mark a with 100", "lease Withdrawn Withdrawn")},
		{"nor one that is marked", see(granted(a, kubelet), 0, pod("a", cold, stamped, marked)), lines("mark a with 100", "lease Withdrawn Withdrawn")},
		{"nor one that is late", see(granted(a, kubelet), takeUp, carrying), lines("mark a with 100", "lease Withdrawn Withdrawn blocked TakeUpFailed")},
		{"under Forbid it is guarded first", see(granted(a, kubelet, forbid), 0, a), lines("guard a", "await take-up 5m0s")},
		{"also when it carries the token", see(granted(a, kubelet, forbid), 0, carrying), lines("guard a", "await take-up 5m0s")},
		{"then confirmed for", see(granted(a, kubelet, forbid), 0, pod("a", cold, stamped, guard)),
			lines("lease Confirmed", "stamp a with 100, gate 0", "await take-up 5m0s")},
		{"a pod that lost its gate some other way is an agent's", see(granted(a, kubelet), 0, pod("a", warm, stamped)), lines("await take-up 5m0s")},
		{"a pod whose grant was taken back is a candidate again", see(released(pod("x"), v1alpha1.OutcomeWithdrawn, func(*leaseObject) {}), 0, pod("a", cold, stamped, marked)),
			lines("lease Granted a token 103 by Release", "stamp a with 103, gate 0")},
		{"but not while it might still lose its gate for the old one", see(released(pod("x"), v1alpha1.OutcomeWithdrawn), 0, carrying), lines()},
	})
}

// Who speaks for a holder was settled with its grant. The configuration is for
// the next.
func TestAChangedRenewerHoldsFromTheNextGrant(t *testing.T) {
	a := pod("a", cold)
	byKubelet := after(confirmed(a), set(v1alpha1.AnnotationRenewedBy, string(v1alpha1.RenewedByAgent)))
	byAgent := after(live(a), kubelet)
	unconfirmed := after(granted(a), kubelet)
	check(t, []rule{
		{"a kubelet's holder does not lapse for want of renewals", quiet(byKubelet, time.Hour, time.Second, true, pod("a", warm, stamped, wasReady)), lines("await lapse 15s")},
		{"an agent's holder lapses though its node is well", quiet(byAgent, term, 0, true, pod("a", warm, stamped)),
			lines("mark a with 100", "lease TermEnded Lapsed", "remove a")},
		{"an unconfirmed grant keeps its take-up deadline", quiet(unconfirmed, takeUp, 0, false, pod("a", warm, stamped)),
			lines("mark a with 100", "lease Withdrawn Withdrawn blocked TakeUpFailed")},
	})
	t.Run("only of a carried term the configuration tells", func(t *testing.T) {
		for renewer, want := range map[v1alpha1.RenewedBy]bool{v1alpha1.RenewedByKubelet: true, v1alpha1.RenewedByAgent: false} {
			r := lease.Record{Token: 7, GrantHolder: holderOf(a), Started: lease.StartedUnknown, Config: lease.Config{RenewedBy: renewer}}
			if got := ByKubelet(r); got != want {
				t.Errorf("%s: %t", renewer, got)
			}
		}
	})
}
