// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

func TestALiveTermIsWatchedAndLeftAlone(t *testing.T) {
	a := pod("a", warm)
	held := pod("a", warm, stamped)
	check(t, []rule{
		{"while it renews", see(live(a), time.Second, held, pod("b", warm)), lines("await lapse 15s")},
		{"a stamp that was missed is made up for", see(live(a), time.Second, a), lines("stamp a with 100, gate -1", "await lapse 15s")},
		{"but not on a marked pod", see(live(a), time.Second, pod("a", warm, marked)), lines("await lapse 15s")},
		{"nor on one that is being deleted", see(live(a), time.Second, pod("a", warm, deleting)), lines("await lapse 15s")},
		{"closing the lease does not end it", see(after(live(a), closed), time.Second, held), lines("await lapse 15s")},
		{"nor does deleting it", see(after(live(a), going), time.Second, held), lines("await lapse 15s")},
		{"nor that the pod is gone", see(live(a), time.Second), lines("await lapse 15s")},
		{"every wait uses the longest duration", see(after(live(a), set(v1alpha1.AnnotationLongestDuration, "60")), 20*time.Second, held), lines("await lapse 1m0s")},
		{"when renewals resume, the lease is no longer blocked", see(after(live(a), blockedBy(v1alpha1.BlockedHolderUnreachable)), 0, held),
			lines("lease Unblocked", "await lapse 15s")},
	})
}

func TestALapseEndsTheTermMarkFirstAndEvictLast(t *testing.T) {
	a := pod("a", warm)
	held, b := pod("a", warm, stamped), pod("b", warm)
	check(t, []rule{
		{"with the next candidate in the same write", see(live(a), term, held, b),
			lines("mark a with 100", "lease Granted b token 102 by Lapse", "stamp b with 102, gate -1", "remove a")},
		{"alone where there is none", see(live(a), term, held), lines("mark a with 100", "lease TermEnded Lapsed", "remove a")},
		{"under Tolerate as well", see(live(a, tolerate), term, held), lines("mark a with 100", "lease TermEnded Lapsed", "remove a")},
		{"a gone pod needs no mark", see(live(a), term, b), lines("lease Granted b token 102 by Lapse", "stamp b with 102, gate -1")},
		{"a pod that is being deleted is not removed again", see(live(a), term, pod("a", warm, deleting)), lines("mark a with 100", "lease TermEnded Lapsed")},
		{"a closed lease is not handed over", see(after(live(a), closed), term, held, b),
			lines("mark a with 100", "lease TermEnded Lapsed closed Suspended", "remove a")},
		{"what hinders the next grant does not keep the term open: an unrecorded token",
			see(after(live(a), set(v1alpha1.AnnotationMinToken, "5000"), set(v1alpha1.AnnotationTokenFloor, "400")), term, held, b),
			lines("mark a with 100", "lease TermEnded Lapsed", "remove a")},
		{"nor no token at all", see(after(live(a), func(l *leaseObject) { l.ResourceVersion = "x" }), term, held, b),
			lines("mark a with 100", "lease TermEnded Lapsed", "remove a")},
		{"an earlier block is over", see(after(live(a), blockedBy(v1alpha1.BlockedInvalidLease)), term, held),
			lines("mark a with 100", "lease TermEnded Lapsed", "remove a")},
	})
}

func TestAProvenDeathEndsTheTermAtOnce(t *testing.T) {
	a := pod("a", warm)
	dead, b := pod("a", ended(1), stamped), pod("b", warm)
	check(t, []rule{
		{"with the next candidate in the same write", see(live(a), 0, dead, b),
			lines("lease Granted b token 102 by Death", "stamp b with 102, gate -1")},
		{"alone where there is none", see(live(a), 0, dead), lines("lease TermEnded Died")},
		{"under Forbid too", see(live(a, forbid), 0, pod("a", ended(1)), pod("b", cold, finalizer(v1alpha1.FinalizerLease))),
			lines("lease Granted b token 102 by Death", "stamp b with 102, gate 0")},
		{"success of work that runs once closes and grants nobody", see(live(a, once), 0, pod("a", ended(0)), b),
			lines("lease TermEnded Succeeded closed Completed")},
		{"its failure does not", see(live(a, once), 0, dead, b), lines("lease Granted b token 102 by Death", "stamp b with 102, gate -1")},
		{"success of other work is handed over", see(live(a), 0, pod("a", ended(0)), b),
			lines("lease Granted b token 102 by Death", "stamp b with 102, gate -1")},
		{"a pod restarted in place goes first", see(live(a), 0, pod("a", restarted, stamped), b),
			lines("lease Granted a token 102 by Death", "stamp a with 102, gate -1")},
		{"a gated pod could still lose its gate to a late stamp, so it is marked", see(live(a), 0, pod("a", cold, deleting), b),
			lines("mark a with 100", "lease Granted b token 102 by Death", "stamp b with 102, gate -1")},
		{"an end without the nonce proves nothing where it may restart",
			see(live(a), 0, pod("a", restarted, stamped, func(p *podObject) { p.Status.ContainerStatuses[0].LastTerminationState.Terminated.Message = "" })),
			lines("await lapse 15s")},
	})
}

func TestUnderForbidALapseIsNotEnough(t *testing.T) {
	a := pod("a", warm)
	held, b := pod("a", warm, stamped, grace(30)), pod("b", warm, finalizer(v1alpha1.FinalizerLease))
	check(t, []rule{
		{"the lease says so, and the pod is removed for its kubelet's report", see(live(a, forbid), term, held, b),
			lines("lease Blocked blocked HolderUnreachable", "remove a")},
		{"the removal is not repeated", see(live(a, forbid), term, pod("a", warm, deleting)), lines("lease Blocked blocked HolderUnreachable")},
		{"nor ends it that the pod is gone", see(live(a, forbid), term, b), lines("lease Blocked blocked HolderUnreachable")},
	})
	t.Run("the text is written once", func(t *testing.T) {
		o := see(live(a, forbid), term, pod("a", warm, deleting))
		again := see(Decide(o).Actions[0].(UpdateLease).Lease, time.Hour, pod("a", warm, deleting))
		compare(t, tell(Decide(again)), lines())
	})
}

func vouching(l *leaseObject, age time.Duration, forced time.Duration, pods ...*podObject) Observed {
	o := see(l, age, pods...)
	o.ForceDeletedFor = forced
	return o
}

func TestAnOperatorMayVouch(t *testing.T) {
	a := pod("a", warm)
	held := pod("a", warm, grace(20))
	going := pod("a", warm, deleting, grace(20))
	b := pod("b", warm, finalizer(v1alpha1.FinalizerLease))
	wait := term + 20*time.Second + 15*time.Second
	tainted := func(age time.Duration, p *podObject) Observed {
		o := see(live(a, forbid), age, p, b)
		o.NodeOutOfService = true
		return o
	}
	handed := lines("mark a with 100", "lease Granted b token 102 by Vouching", "stamp b with 102, gate -1")
	blocked := "lease Blocked blocked HolderUnreachable"
	check(t, []rule{
		{"by the out-of-service taint", tainted(term, going), handed},
		{"of a pod that is being deleted only", tainted(term, held), lines(blocked, "remove a")},
		{"and is not heard of any more", tainted(time.Second, going), lines("await lapse 15s")},
		{"by a force delete, after duration, grace and lock delay", vouching(live(a, forbid), wait, wait, going, b), handed},
		{"no moment earlier", vouching(live(a, forbid), wait, wait-1, going, b), lines(blocked, "await requeue 1ns")},
		{"of a pod whose grace is the default", vouching(live(a, forbid), time.Hour, wait, pod("a", warm, deleting), b), lines(blocked, "await requeue 10s")},
		{"never while it renews", vouching(live(a, forbid), time.Second, time.Hour, going, b), lines("await lapse 15s")},
	})
}

func TestADisputedLeaseIsNobodysGrantAndNotFree(t *testing.T) {
	a := pod("a", warm)
	held, b := pod("a", warm, stamped), pod("b", warm)
	guardedB := pod("b", warm, finalizer(v1alpha1.FinalizerLease))
	dead := pod("a", ended(1), stamped)
	foreign := spec("somebody")
	carried := lease.New(live(a).ObjectMeta, config(live(a, forbid)), lease.Carry{Token: 100, Holder: holderOf(a), Transitions: 1})
	delete(carried.Annotations, v1alpha1.AnnotationClosed)
	blocked := "lease Blocked blocked ForeignHolder"
	check(t, []rule{
		{"a foreign holder is respected while it renews", see(after(free(), foreign), time.Second, b), lines(blocked, "await lapse 15s")},
		{"and followed when it lapses", see(after(free(), foreign), term, b), lines("lease Granted b token 100 by Lapse", "stamp b with 100, gate -1")},
		{"or removed when nobody waits", see(after(free(), foreign), term), lines("lease TermEnded ")},
		{"a seized term ends when both are silent", see(after(live(a), foreign), term, held, b),
			lines("mark a with 100", "lease Granted b token 102 by Lapse", "stamp b with 102, gate -1", "remove a")},
		{"a death of the recorded holder does not end the foreign one", see(after(live(a), foreign), time.Second, dead, b), lines(blocked, "await lapse 15s")},
		{"but is enough when that has lapsed, under Forbid too", see(after(live(a, forbid), foreign), term, dead, guardedB),
			lines("lease Granted b token 102 by Death", "stamp b with 102, gate -1")},
		{"under Forbid a lapse is not, and the pod is removed for its kubelet's report", see(after(live(a, forbid), foreign), term, held, guardedB), lines(blocked, "remove a")},
		{"but not while somebody renews", see(after(live(a, forbid), foreign), term-1, held, guardedB), lines(blocked, "await lapse 15s")},
		{"a wiped holder is not free", see(after(live(a), spec("")), time.Second, held, b), lines(blocked, "await lapse 15s")},
		{"its term lapses", see(after(live(a), spec("")), term, held, b),
			lines("mark a with 100", "lease Granted b token 102 by Lapse", "stamp b with 102, gate -1", "remove a")},
		{"under Tolerate too", see(after(live(a, tolerate), spec("")), term, held), lines("mark a with 100", "lease TermEnded Lapsed", "remove a")},
		{"but not under Forbid", see(after(live(a, forbid), spec("")), time.Hour, held, guardedB), lines(blocked, "remove a")},
		{"nor twice", see(after(live(a, forbid), spec("")), time.Hour, pod("a", warm, deleting), guardedB), lines(blocked)},
		{"a death of the wiped holder ends it at once", see(after(live(a, forbid), spec("")), 0, dead, guardedB),
			lines("lease Granted b token 102 by Death", "stamp b with 102, gate -1")},
		{"a wiped grant that was not confirmed waits as well", see(after(granted(a), spec("")), time.Second, a, b), lines(blocked, "await lapse 15s")},
		{"a carried term waits for its pod's proof", see(carried, time.Hour, held, guardedB), lines(blocked, "remove a")},
		{"and ends by it", see(carried, 0, dead, guardedB), lines("lease Granted b token 102 by Death", "stamp b with 102, gate -1")},
		{"a force delete will count later", vouching(after(live(a, forbid), spec("")), term, 20*time.Second, pod("a", warm, deleting, grace(20)), guardedB),
			lines(blocked, "await requeue 30s")},
		{"it never makes for polling", vouching(after(live(a, forbid), foreign), time.Second, time.Hour, pod("a", warm, deleting), guardedB),
			lines(blocked, "await lapse 15s")},
	})
}

func config(l *leaseObject) lease.Config {
	r, err := lease.Parse(l)
	if err != nil {
		panic(err)
	}
	return r.Config
}
