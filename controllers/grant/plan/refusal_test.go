// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"
	"time"

	"leasehold.dev/api/v1alpha1"
)

const said = "the API server refuses it: policy says no"

// refusing adds to a look what was refused.
func refusing(o Observed, writes ...PodWrite) Observed {
	o.Refused = map[PodWrite]string{}
	for _, w := range writes {
		o.Refused[w] = said
	}
	return o
}

func TestAWriteThatIsRefusedIsShownAndTriedAgain(t *testing.T) {
	a := pod("a", warm)
	patchA, removeA := PodWrite{UID: "uid-a"}, PodWrite{"uid-a", true}
	shown := set(v1alpha1.AnnotationBlocked, v1alpha1.BlockedPodWriteRefused+": "+said)
	blocked := "lease Blocked blocked PodWriteRefused"
	waits := pod("a", cold)
	bare := pod("a", cold)
	check(t, []rule{
		{"a stamp: the lease says so first", refusing(see(granted(a), time.Second, waits), patchA), lines(blocked, "await take-up 5m0s")},
		{"then it is tried again, and the text goes if it passes", refusing(see(after(granted(a), shown), time.Second, waits), patchA),
			lines("stamp a with 100, gate 0", "lease Unblocked", "await take-up 5m0s")},
		{"of a live term", refusing(see(live(a), time.Second, waits), patchA), lines(blocked, "await lapse 15s")},
		{"a guard", refusing(see(free(forbid), 0, bare), patchA), lines(blocked)},
		{"is tried again", refusing(see(free(forbid, shown), 0, bare), patchA), lines("guard a")},
		{"the removal of a pod that never became ready", refusing(quiet(confirmed(waits), takeUp, 0, false, pod("a", warm, stamped)), removeA),
			lines(blocked, "await lapse 15s")},
		{"the removal of what is left, where it is all there is", refusing(see(released(a, v1alpha1.OutcomeLapsed), 0, pod("a", warm, marked)), removeA),
			lines(blocked, "remove a")},
		{"but not where another pod is granted", refusing(see(released(a, v1alpha1.OutcomeLapsed), 0, pod("a", warm, marked), pod("b", warm)), removeA),
			lines("lease Granted b token 103 by Release", "stamp b with 103, gate -1", "remove a")},
		{"a pod that may be written goes first", refusing(see(free(), 0, pod("a", cold), pod("b", cold, born(5))), patchA),
			lines("lease Granted b token 100 by Release", "stamp b with 100, gate 0")},
		{"the negative control: nothing refused, the oldest goes first", refusing(see(free(), 0, pod("a", cold), pod("b", cold, born(5)))),
			lines("lease Granted a token 100 by Release", "stamp a with 100, gate 0")},
	})
}

func TestARefusedMarkDoesNotHoldUpWhatNeedsNone(t *testing.T) {
	a := pod("a", warm)
	held, b := pod("a", warm, stamped), pod("b", warm)
	patchA := PodWrite{UID: "uid-a"}
	shown := set(v1alpha1.AnnotationBlocked, v1alpha1.BlockedPodWriteRefused+": "+said)
	blocked := "lease Blocked blocked PodWriteRefused"
	check(t, []rule{
		{"a lapsed pod that carries its token is not marked", refusing(see(live(a), term, held, b), patchA),
			lines("lease Granted b token 102 by Lapse", "stamp b with 102, gate -1", "remove a")},
		{"nor one that is being deleted", refusing(see(granted(a), 0, pod("a", cold, deleting)), patchA), lines("lease Withdrawn Withdrawn")},
		{"one of ours behind the gate is deleted instead", refusing(see(granted(a), takeUp, pod("a", cold, ours)), patchA),
			lines("revoke a", "lease Withdrawn Withdrawn blocked TakeUpFailed", "remove a")},
		{"another's is not: the lease says what is in the way", refusing(see(granted(a), takeUp, pod("a", cold)), patchA), lines(blocked)},
		{"and it is tried again", refusing(see(after(granted(a), shown), takeUp, pod("a", cold)), patchA),
			lines("mark a with 100", "lease Withdrawn Withdrawn blocked TakeUpFailed")},
		{"one that still may be stamped is not passed over", refusing(see(live(a), term, a, b), patchA), lines(blocked)},
	})
}

func TestWhatBlocksUnderForbidSaysTheWaysOut(t *testing.T) {
	a := pod("a", warm)
	ungone := pod("a", warm, stamped, grace(30))
	unbound := pod("a", cold)
	text := func(o Observed) string {
		t.Helper()
		return Decide(o).Actions[0].(UpdateLease).Lease.Annotations[v1alpha1.AnnotationBlocked]
	}
	machine := []string{"node-1", "out-of-service", "force-delete the pod, which counts after 1m0s", "break-glass", "released-token to 100"}
	for name, tc := range map[string]struct {
		see  Observed
		want []string
		not  string
	}{
		"a lapse":                         {see(live(a, forbid), term, ungone), append(machine, "HolderUnreachable"), "In the way"},
		"a lapse, and no pod":             {see(live(a, forbid), term), []string{"HolderUnreachable", "break-glass", "released-token to 100"}, "taint"},
		"a lapse whose removal is denied": {refusing(see(live(a, forbid), term, ungone), PodWrite{"uid-a", true}), append(machine, said), "no pod"},
		"a seized lease":                  {see(after(live(a, forbid), spec("x")), time.Second, ungone), append(machine, "ForeignHolder", `"x"`), "In the way"},
		"a wiped lease":                   {see(after(live(a, forbid), spec("")), term, ungone), append(machine, "ForeignHolder"), "In the way"},
		"a wiped lease, and no pod":       {see(after(live(a, forbid), spec("")), term), []string{"ForeignHolder", "break-glass"}, "taint"},
		"a pod that is bound nowhere":     {see(after(live(a, forbid), spec("")), term, unbound), []string{"bound to no node", "delete the pod"}, "taint"},
		"a pod that its node refused":     {quiet(confirmed(a, forbid), time.Hour, time.Hour, false, pod("a", stamped, rejected, deleting)), []string{"Pod was rejected: Node didn't", "no phase is proof", "HolderUnreachable"}, "In the way"},
		"the control: Fence needs none":   {see(after(live(a), spec("x")), time.Second, ungone), []string{"ForeignHolder"}, "Ways out"},
	} {
		t.Run(name, func(t *testing.T) {
			got := text(tc.see)
			for _, want := range tc.want {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in %q", want, got)
				}
			}
			if strings.Contains(got, tc.not) {
				t.Errorf("%q in %q", tc.not, got)
			}
		})
	}
}
