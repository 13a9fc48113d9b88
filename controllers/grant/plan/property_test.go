// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

func some[T any](t *rapid.T, name string, from ...T) T { return rapid.SampledFrom(from).Draw(t, name) }

func somePod(t *rapid.T, name string) *corev1.Pod {
	none := func(*corev1.Pod) {}
	return pod(name,
		some(t, name+" state", warm, cold, ended(0), ended(1), restarted, phase(corev1.PodPending)),
		some(t, name+" owner", podEdit(none), ours, ownedBy("batch/v1", "job")),
		some(t, name+" deletion", podEdit(none), deleting),
		some(t, name+" finalizer", podEdit(none), finalizer(v1alpha1.FinalizerLease), finalizer(v1alpha1.FinalizerOutcome)),
		some(t, name+" stamp", podEdit(none), stamped),
		some(t, name+" mark", podEdit(none), marked, annotated(v1alpha1.AnnotationEndedToken, "7")),
		born(rapid.IntRange(0, 2).Draw(t, name+" age")))
}

func someLease(t *rapid.T, holder *corev1.Pod) *leaseObject {
	config := []leaseEdit{
		set(v1alpha1.AnnotationOverlapPolicy, some(t, "policy", "Fence", "Forbid", "Tolerate")),
		set(v1alpha1.AnnotationRenewedBy, some(t, "renewed by", "Agent", "Kubelet")),
	}
	if rapid.Bool().Draw(t, "close on success") {
		config = append(config, once)
	}
	agent := append(slices.Clone(config), set(v1alpha1.AnnotationRenewedBy, "Agent"))
	var l *leaseObject
	switch some(t, "phase", "free", "granted", "confirmed", "live", "released", "wiped", "seized") {
	case "free":
		l = after(free(config...), func(l *leaseObject) { l.ResourceVersion = "200" }) // Above every mark.
	case "granted":
		l = granted(holder, config...)
	case "confirmed":
		l = confirmed(holder, config...)
	case "live":
		l = live(holder, agent...)
	case "released":
		outcome := some(t, "outcome", v1alpha1.OutcomeLapsed, v1alpha1.OutcomeWithdrawn, v1alpha1.OutcomeStopped, v1alpha1.OutcomeVouched)
		l = released(holder, outcome, agent...)
	case "wiped":
		l = after(live(holder, agent...), spec(""))
	case "seized":
		l = after(granted(holder, config...), spec("somebody"))
	}
	nothing := func(*leaseObject) {}
	return after(l,
		some(t, "closed", leaseEdit(nothing), leaseEdit(nothing), closed, going),
		some(t, "blocked", leaseEdit(nothing), blockedBy(v1alpha1.BlockedHolderUnreachable), blockedBy(v1alpha1.BlockedTakeUpFailed)),
		some(t, "configuration", leaseEdit(nothing), leaseEdit(nothing), set(v1alpha1.AnnotationLockDelay, "later"),
			set(v1alpha1.AnnotationMinToken, "5000"), set(v1alpha1.AnnotationTokenFloor, "1")))
}

func someSight(t *rapid.T) Observed {
	a, b, c := somePod(t, "a"), somePod(t, "b"), somePod(t, "c")
	spans := []time.Duration{0, time.Second, term - 1, term, takeUp - 1, takeUp, time.Hour}
	o := see(someLease(t, a), some(t, "age", spans...))
	o.Pods = []*corev1.Pod{b, c}
	o.Silence = some(t, "silence", spans...)
	o.HolderWasReady = rapid.Bool().Draw(t, "was ready")
	o.NodeOutOfService = rapid.Bool().Draw(t, "out of service")
	o.ForceDeletedFor = some(t, "forced", spans...)
	o.Refused = map[PodWrite]string{}
	for _, p := range []*corev1.Pod{a, b} {
		for _, removal := range []bool{false, true} {
			if rapid.Bool().Draw(t, "refused") {
				o.Refused[PodWrite{p.UID, removal}] = "no"
			}
		}
	}
	r, err := lease.Parse(o.Lease)
	if err != nil || !r.Open() {
		o.Pods = append(o.Pods, a)
		return o
	}
	switch some(t, "holder", "cached", "read late", "gone") {
	case "cached":
		o.Pods, o.Holder = append(o.Pods, a), a
	case "read late":
		o.Holder, o.HolderReadLate = a, true
	}
	return o
}

func clone(o Observed) Observed {
	c := o
	c.Lease = o.Lease.DeepCopy()
	c.Pods = nil
	for _, p := range o.Pods {
		q := p.DeepCopy()
		c.Pods = append(c.Pods, q)
		if p == o.Holder {
			c.Holder = q
		}
	}
	if o.HolderReadLate {
		c.Holder = o.Holder.DeepCopy()
	}
	return c
}

// What holds of every plan, whatever was seen.
func TestEveryPlan(t *testing.T) {
	for name, holds := range map[string]func(*rapid.T, Observed, Plan){
		"is the same for the same sight, which it leaves as it was":                         pure,
		"writes the lease at most once, under the version seen":                             oneLeaseWrite,
		"writes a pod that could still be stamped before it ends or passes on its term":     revokeFirst,
		"never stamps a pod that was read late, is deleted, or is marked for the term":      stampsSafely,
		"grants only to an eligible pod, guarded under Forbid, and with a token that rises": grantsRightly,
		"asks to be woken only for what is still to come":                                   wakesAhead,
		"removes no pod of others that never worked":                                        sparesOthers,
		"says what is refused before it is tried again":                                     saysWhatIsRefused,
		"confirms only for a pod that carries the token, has its gate, and is kept":         confirmsRightly,
		"takes no gate before the term is confirmed, where nothing else confirms":           takesTheGateLast,
		"leaves a confirmed term alone while it is heard of":                                keepsTheLiving,
		"writes nothing but the block on a lease that it cannot understand":                 invalidIsBlocked,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				o := someSight(t)
				holds(t, o, Decide(o))
			})
		})
	}
}

func pure(t *rapid.T, o Observed, p Plan) {
	before := clone(o)
	if diff := cmp.Diff(p, Decide(before)); diff != "" {
		t.Fatalf("another plan for the same sight:\n%s", diff)
	}
	if diff := cmp.Diff(clone(o), before); diff != "" {
		t.Fatalf("the sight was changed:\n%s", diff)
	}
}

// leaseWrite returns the plan's write of the lease and its place; -1: none.
func leaseWrite(p Plan) (*UpdateLease, int) {
	for i, a := range p.Actions {
		if u, ok := a.(UpdateLease); ok {
			return &u, i
		}
	}
	return nil, -1
}

func oneLeaseWrite(t *rapid.T, o Observed, p Plan) {
	u, i := leaseWrite(p)
	if u == nil {
		return
	}
	if rest, _ := leaseWrite(Plan{Actions: p.Actions[i+1:]}); rest != nil {
		t.Fatal("a second write of the lease can only fail")
	}
	if u.Lease.UID != o.Lease.UID || u.Lease.ResourceVersion != o.Lease.ResourceVersion {
		t.Fatal("the write is not conditioned on what was seen")
	}
}

// ends reports whether the write ends the term that was seen.
func ends(o Observed, u *UpdateLease) bool {
	before, err := lease.Parse(o.Lease)
	if err != nil || u == nil || !before.Open() {
		return false
	}
	after, err := lease.Parse(u.Lease)
	return err != nil || after.Released >= before.Token
}

func revokeFirst(t *rapid.T, o Observed, p Plan) {
	u, i := leaseWrite(p)
	if !ends(o, u) || o.Holder == nil {
		return
	}
	if u.Event.Basis == string(lease.ByDeath) && gate(o.Holder) < 0 {
		return // Only an annotation is left to write, and nothing runs.
	}
	refused := o.Refused[PodWrite{UID: o.Holder.UID}] != ""
	if refused && (o.Holder.DeletionTimestamp != nil || (gate(o.Holder) < 0 && o.Holder.Annotations[v1alpha1.AnnotationToken] == o.Lease.Annotations[v1alpha1.AnnotationToken])) {
		return // Nobody who sees this pod, or has its version, stamps it.
	}
	if !slices.ContainsFunc(p.Actions[:i], func(a Action) bool { return revokes(a, o.Holder) }) {
		t.Fatalf("the pod was not written first: %v", tell(p))
	}
}

func revokes(a Action, pod *corev1.Pod) bool {
	switch a := a.(type) {
	case MarkEnded:
		return a.Pod == pod
	case RevokePod:
		return a.Pod == pod && gate(pod) >= 0
	}
	return false
}

func stampsSafely(t *rapid.T, o Observed, p Plan) {
	for _, a := range p.Actions {
		s, ok := a.(StampPod)
		if !ok {
			continue
		}
		if s.Pod.DeletionTimestamp != nil || s.Pod.Annotations[v1alpha1.AnnotationEndedToken] == s.Token ||
			(o.HolderReadLate && s.Pod == o.Holder) {
			t.Fatalf("%v", tell(p))
		}
		l := o.Lease
		if u, _ := leaseWrite(p); u != nil && u.Event.Reason == ReasonGranted {
			l = u.Lease
		}
		if l.Annotations[v1alpha1.AnnotationHolder] != holderOf(s.Pod) || l.Annotations[v1alpha1.AnnotationToken] != s.Token {
			t.Fatalf("the stamp is not the grant's: %v", tell(p))
		}
	}
}

func grantsRightly(t *rapid.T, o Observed, p Plan) {
	u, i := leaseWrite(p)
	if u == nil || u.Event.Reason != ReasonGranted {
		return
	}
	before, _ := lease.Parse(o.Lease)
	after, err := lease.Parse(u.Lease)
	if err != nil || after.Token <= before.Token || before.Closed != "" || o.Lease.DeletionTimestamp != nil {
		t.Fatalf("granted %d after %d: %v %v", after.Token, before.Token, err, tell(p))
	}
	stamp, ok := p.Actions[i+1].(StampPod)
	if !ok || !Eligible(stamp.Pod, before.Config) || (before.Config.OverlapPolicy == v1alpha1.OverlapForbid && !guarded(stamp.Pod)) {
		t.Fatalf("granted to the wrong pod: %v", tell(p))
	}
}

func wakesAhead(t *rapid.T, o Observed, p Plan) {
	r, err := lease.Parse(o.Lease)
	if err != nil {
		return
	}
	heard := o.Age
	if ByKubelet(r) {
		heard = min(o.Age, o.Silence)
	}
	if (p.Lapse > 0 && p.Lapse <= heard) || (p.TakeUp > 0 && p.TakeUp <= o.Age) || p.RequeueAfter < 0 {
		t.Fatalf("age %s, silence %s: %v", o.Age, o.Silence, tell(p))
	}
}

// A write that is known to be refused is tried only when the Lease says so, or
// says what else is in the way, or is written first.
func saysWhatIsRefused(t *rapid.T, o Observed, p Plan) {
	if len(p.Actions) == 0 || o.Refused[writes(p.Actions[0])] == "" {
		return
	}
	switch a := p.Actions[0].(type) {
	case FreePod:
		return // Nobody else waits for it.
	case RemovePod:
		if o.Holder == nil || a.Pod.UID != o.Holder.UID {
			return // What an earlier term left, beside another.
		}
	}
	if o.Lease.Annotations[v1alpha1.AnnotationBlocked] == "" {
		t.Fatalf("refused in silence: %v", tell(p))
	}
}

func confirmsRightly(t *rapid.T, o Observed, p Plan) {
	u, _ := leaseWrite(p)
	if u == nil || u.Event.Reason != ReasonConfirmed {
		return
	}
	r, err := lease.Parse(o.Lease)
	pod := o.Holder
	if err != nil || pod == nil || pod.Annotations[v1alpha1.AnnotationToken] != decimal(r.Token) || gate(pod) < 0 || pod.DeletionTimestamp != nil ||
		(r.Config.OverlapPolicy == v1alpha1.OverlapForbid && !guarded(pod)) {
		t.Fatalf("%v", tell(p))
	}
}

func takesTheGateLast(t *rapid.T, o Observed, p Plan) {
	for i, a := range p.Actions {
		s, ok := a.(StampPod)
		if !ok || s.Gate < 0 {
			continue
		}
		before, err := lease.Parse(o.Lease)
		if err != nil || before.Config.RenewedBy != v1alpha1.RenewedByKubelet || (before.Phase() == lease.Live && o.Holder == s.Pod) {
			continue
		}
		if u, at := leaseWrite(p); u == nil || at > i || u.Event.Reason != ReasonConfirmed {
			t.Fatalf("%v", tell(p))
		}
	}
}

func sparesOthers(t *rapid.T, o Observed, p Plan) {
	r, err := lease.Parse(o.Lease)
	for _, a := range p.Actions {
		if revoke, ok := a.(RevokePod); ok && !Ours(revoke.Pod) {
			t.Fatalf("%v", tell(p))
		}
		remove, ok := a.(RemovePod)
		if !ok || Ours(remove.Pod) {
			continue
		}
		if err != nil || r.Phase() == lease.Granted || r.Outcome == v1alpha1.OutcomeWithdrawn && !r.Open() {
			t.Fatalf("%v", tell(p))
		}
	}
}

func keepsTheLiving(t *rapid.T, o Observed, p Plan) {
	r, err := lease.Parse(o.Lease)
	if err != nil || r.Phase() != lease.Live || ByKubelet(r) || o.Age >= r.Longest {
		return
	}
	if u, _ := leaseWrite(p); ends(o, u) && u.Event.Basis != string(lease.ByDeath) {
		t.Fatalf("unchanged for %s only: %v", o.Age, tell(p))
	}
}

func invalidIsBlocked(t *rapid.T, o Observed, p Plan) {
	if _, err := lease.Parse(o.Lease); err == nil {
		return
	}
	if got := tell(p); len(got) != 1 || got[0] != "lease Blocked blocked InvalidLease" {
		t.Fatalf("%v", got)
	}
}
