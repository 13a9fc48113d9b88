// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"time"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// Decide decides.
func Decide(o Observed) Plan {
	r, err := lease.Parse(o.Lease)
	if err != nil {
		return decider{Observed: o}.blocked(v1alpha1.BlockedInvalidLease, err.Error())
	}
	d := decider{Observed: o, r: r}
	p := d.byPhase()
	p.Actions = append(p.Actions, d.clearAway()...)
	p.Actions = append(p.Actions, d.release()...)
	return p
}

type decider struct {
	Observed
	r lease.Record
}

func (d decider) byPhase() Plan {
	switch d.r.Phase() {
	case lease.Free:
		return d.admitted(d.free())
	case lease.Granted:
		return d.admitted(d.granted())
	case lease.Live:
		return d.live()
	default:
		return d.disputed()
	}
}

// free grants to the next candidate.
func (d decider) free() Plan {
	if d.closed() {
		return d.idle("closed: nothing is granted")
	}
	pod := d.next(nil)
	if pod == nil {
		if text := d.keptLeftover(); text != "" {
			return d.blocked(v1alpha1.BlockedPodWriteRefused, text)
		}
		return d.idle("free, and no candidate")
	}
	if d.needsGuard(pod) {
		p := note("guard " + pod.Name + ", to grant to it next")
		p.Actions = []Action{GuardPod{pod}}
		return p
	}
	p, _ := d.grant(pod, lease.Basis{Kind: lease.ByRelease})
	return p
}

// idle takes back what the Lease says of an obstacle that is no more. That a
// pod failed to take up stands until the next grant.
func (d decider) idle(why string) Plan {
	p := note(why)
	if reason := d.blockedReason(); reason != "" && reason != v1alpha1.BlockedTakeUpFailed {
		p.Actions = []Action{d.unblock()}
	}
	return p
}

// granted waits for the holder to confirm, within the take-up deadline.
func (d decider) granted() Plan {
	if why := d.withdrawReason(); why != "" {
		return d.withdraw(why)
	}
	p, confirms := d.confirm()
	if !confirms {
		p = d.stamp()
		if d.blockedReason() != "" {
			p.Actions = append(p.Actions, d.unblock())
		}
	}
	p.TakeUp = d.r.Config.TakeUp
	return p
}

func (d decider) withdrawReason() string {
	switch {
	case d.closed():
		return "the lease is closed"
	case d.Holder == nil:
		return "its pod is gone"
	case d.Holder.DeletionTimestamp != nil:
		return "its pod is being deleted"
	case hasEnded(d.Holder):
		return "its pod has ended"
	case d.Age >= d.r.Config.TakeUp:
		return fmt.Sprintf("its pod did not start the work within %s: %s", d.r.Config.TakeUp, waitingFor(d.Holder))
	case d.marked() && !d.stamped():
		return "another instance had begun to withdraw it"
	}
	return ""
}

// withdraw takes an unconfirmed grant back: first the pod is written, so that a
// late stamp of another instance fails; then the Lease; then, if it is ours, the
// pod is removed.
func (d decider) withdraw(why string) Plan {
	l, err := d.Withdraw()
	if err != nil {
		return note(err.Error())
	}
	late := d.Holder != nil && d.Age >= d.r.Config.TakeUp
	delete(l.Annotations, v1alpha1.AnnotationBlocked)
	if late {
		l.Annotations[v1alpha1.AnnotationBlocked] = blockedText(v1alpha1.BlockedTakeUpFailed, "pod "+d.Holder.Name+": "+waitingFor(d.Holder))
	}
	p := note("withdraw: " + why)
	p.Actions = append(d.revoke(), UpdateLease{l, Event{
		Warning: late, Reason: ReasonWithdrawn, Action: ActionWithdraw, Pod: d.Holder, Basis: "Withdraw",
		Note: fmt.Sprintf("Took token %d back from %s: %s", d.r.Token, d.r.GrantHolder, why),
	}})
	if d.Holder != nil && Ours(d.Holder) && d.Holder.DeletionTimestamp == nil {
		p.Actions = append(p.Actions, removal(d.Holder, late, why))
	}
	return p
}

// live watches over a confirmed term.
func (d decider) live() Plan {
	if a, over := d.over(); over {
		return d.admitted(d.end(a))
	}
	if d.lateTakeUp() {
		p := d.evict("its pod was not ready within the take-up deadline: " + waitingFor(d.Holder))
		p.Lapse = d.lapseWait()
		return d.admitted(p)
	}
	if d.lapsed() {
		return d.unreachable()
	}
	if d.endedUnproven() {
		p := d.evict(d.endText() + "; its kubelet reports what became of its containers when it is deleted")
		p.Lapse = d.lapseWait()
		return d.admitted(p)
	}
	p := d.stamp()
	p.Lapse = d.lapseWait()
	if d.takingUp() && d.Age < d.r.Config.TakeUp {
		p.TakeUp = d.r.Config.TakeUp
	}
	if d.blockedReason() != "" {
		p.Actions = append(p.Actions, d.unblock())
	}
	p.Actions = append(p.Actions, d.noteReady()...)
	return d.admitted(p)
}

// end ends a term: the old pod is written first, then the Lease, with the next
// grant in the same write where a candidate waits.
func (d decider) end(a argument) Plan {
	d.Age = a.age
	text := fmt.Sprintf("Term of %s with token %d ended (%s): %s", d.r.GrantHolder, d.r.Token, a.Kind, a.why)
	p := note("end: " + text)
	// A dead pod without our gate could be stamped with an annotation only; and
	// it may be a candidate again.
	if a.Kind != lease.ByDeath || gate(d.Holder) >= 0 {
		p.Actions = d.revoke()
	}
	next, granted := d.handOver(a)
	p.Notes, p.Actions = append(p.Notes, next.Notes...), append(p.Actions, next.Actions...)
	if !granted {
		l, err := d.End(a.Basis)
		if err != nil {
			return note(err.Error())
		}
		delete(l.Annotations, v1alpha1.AnnotationBlocked)
		p.Actions = append(p.Actions, UpdateLease{l, Event{
			Warning: a.Kind != lease.ByDeath, Reason: ReasonTermEnded, Action: ActionEnd, Pod: d.Holder, Basis: string(a.Kind), Note: text,
		}})
	}
	if a.Kind != lease.ByDeath {
		p.Actions = append(p.Actions, d.evict(a.why).Actions...)
	}
	return p
}

// handOver grants to the next candidate in the write that ends the term, if it
// can. Else the term is just ended: what stands in the way of the next grant
// must not keep it open.
func (d decider) handOver(a argument) (Plan, bool) {
	if d.closed() || (a.Succeeded && d.r.Config.CloseOnSuccess) {
		return Plan{}, false
	}
	next := d.next(d.Holder)
	if a.Kind == lease.ByDeath && !d.HolderReadLate && Eligible(d.Holder, d.r.Config) {
		next = d.Holder // Restarted in place; it need not wait for a reschedule.
	}
	if next == nil || d.needsGuard(next) {
		return Plan{}, false
	}
	p, granted := d.grant(next, a.Basis)
	if !granted {
		p.Actions = nil // It would write the Lease, whose version the end needs.
	}
	return p, granted
}

func note(text string) Plan { return Plan{Notes: []string{text}} }

// lapseWait is how long the Lease must have been unchanged to look again; zero
// if it has been.
func (d decider) lapseWait() time.Duration {
	if d.lapsed() {
		return 0
	}
	return d.r.Longest
}
