// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
	"leasehold.dev/leaderelect/lease/death"
)

// Decide decides.
func Decide(o Observed) Plan {
	r, err := lease.Parse(o.Lease)
	if err != nil {
		return decider{Observed: o}.blocked(v1alpha1.BlockedInvalidLease, err.Error())
	}
	d := decider{Observed: o, r: r, grantAge: o.Age}
	if r.Config.RenewedBy == v1alpha1.RenewedByKubelet {
		d.Age = min(o.Age, o.Silence)
	}
	switch r.Phase() {
	case lease.Free:
		return d.free()
	case lease.Granted:
		return d.granted()
	case lease.Live:
		return d.live()
	default:
		return d.disputed()
	}
}

type decider struct {
	Observed
	r lease.Record
	// grantAge is the age of the Lease itself, whoever renews.
	grantAge time.Duration
}

// free grants to the next candidate.
func (d decider) free() Plan {
	if d.closed() {
		return note("closed: nothing is granted")
	}
	pod := next(d.Pods, d.r.Config, nil)
	if pod == nil {
		return note("free, and no candidate")
	}
	return d.grant(pod, lease.Basis{Kind: lease.ByRelease})
}

// granted waits for the holder to confirm, within the take-up deadline.
func (d decider) granted() Plan {
	if why := d.withdrawReason(); why != "" {
		return d.withdraw(why)
	}
	p := d.stamp("the pod does not carry the grant's token yet")
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
	case d.Holder.Status.Phase == corev1.PodSucceeded || d.Holder.Status.Phase == corev1.PodFailed:
		return "its pod has ended"
	case d.Age >= d.r.Config.TakeUp:
		return fmt.Sprintf("its pod did not start the work within %s: %s", d.r.Config.TakeUp, waitingFor(d.Holder))
	}
	return ""
}

// withdraw takes an unconfirmed grant back: first the pod is written (or, if
// ours and late, removed), so that a late stamp of another instance fails.
func (d decider) withdraw(why string) Plan {
	l, err := d.Withdraw()
	if err != nil {
		return note(err.Error())
	}
	late := d.Holder != nil && d.Age >= d.r.Config.TakeUp
	if late {
		l.Annotations[v1alpha1.AnnotationBlocked] = blockedText(v1alpha1.BlockedTakeUpFailed, "pod "+d.Holder.Name+": "+waitingFor(d.Holder))
	}
	p := note("withdraw: " + why)
	p.Actions = append(d.revoke(), UpdateLease{l, Event{
		Warning: late, Reason: ReasonWithdrawn, Action: ActionWithdraw, Pod: d.Holder, Basis: "Withdraw",
		Note: fmt.Sprintf("Took token %d back from %s: %s", d.r.Token, d.r.GrantHolder, why),
	}})
	if d.Holder != nil && Ours(d.Holder) && d.Holder.DeletionTimestamp == nil {
		p.Actions = append(p.Actions, RemovePod{Pod: d.Holder, Event: Event{
			Warning: late, Reason: ReasonEvicted, Action: ActionEvict, Pod: d.Holder, Note: "Removed: " + why,
		}})
	}
	return p
}

// live watches over a confirmed term.
func (d decider) live() Plan {
	if basis, why, over := d.over(); over {
		return d.end(basis, why)
	}
	if d.r.Config.RenewedBy == v1alpha1.RenewedByKubelet && d.lateTakeUp() {
		return d.evict("its pod was not ready within the take-up deadline: " + waitingFor(d.Holder))
	}
	if d.Lapsed(d.r) {
		return d.unreachable()
	}
	p := d.stamp("the pod does not carry the grant's token yet")
	p.Lapse = d.r.Longest
	if d.r.Config.RenewedBy == v1alpha1.RenewedByKubelet && !d.HolderWasReady {
		p.TakeUp = d.r.Config.TakeUp
	}
	if d.Lease.Annotations[v1alpha1.AnnotationBlocked] != "" {
		p.Actions = append(p.Actions, d.unblock())
	}
	return p
}

// over looks for an argument that the recorded term has ended.
func (d decider) over() (lease.Basis, string, bool) {
	basis := lease.Basis{Holder: d.r.GrantHolder, Started: d.r.Started}
	if d.Holder != nil {
		if proof := death.Judge(d.Holder, d.r.Started); proof.Dead {
			basis.Kind, basis.Succeeded = lease.ByDeath, proof.Succeeded
			return basis, proof.Reason, d.Ended(d.r, basis) == nil
		}
		if why := d.vouched(); why != "" {
			basis.Kind = lease.ByVouching
			return basis, why, d.Ended(d.r, basis) == nil
		}
	}
	basis.Kind = lease.ByLapse
	return basis, fmt.Sprintf("unchanged for %s", d.Age), d.Ended(d.r, basis) == nil
}

// vouched says by what an operator has vouched for the end of the holder.
func (d decider) vouched() string {
	deleting := d.Holder.DeletionTimestamp != nil
	switch {
	case deleting && d.NodeOutOfService:
		return "its node is tainted out of service"
	case deleting && d.ForceDeletedFor > 0 && d.ForceDeletedFor >= d.forceDeleteWait():
		return fmt.Sprintf("it was force-deleted %s ago; if its process still runs, work may overlap", d.ForceDeletedFor)
	}
	return ""
}

// end ends a term: the old pod is written first, then the Lease, with the next
// grant in the same write where a candidate waits.
func (d decider) end(basis lease.Basis, why string) Plan {
	p := Plan{Actions: d.revoke()}
	if basis.Kind == lease.ByDeath && d.Holder != nil && gate(d.Holder) < 0 {
		p.Actions = nil // Only its annotation could be stamped; and it may be a candidate again.
	}
	next := next(d.Pods, d.r.Config, d.Holder)
	if d.Holder != nil && basis.Kind == lease.ByDeath && Eligible(d.Holder, d.r.Config) {
		next = d.Holder // Restarted in place; it need not wait for a reschedule.
	}
	finished := d.closed() || (basis.Succeeded && d.r.Config.CloseOnSuccess)
	event := Event{
		Warning: basis.Kind != lease.ByDeath, Reason: ReasonTermEnded, Action: ActionEnd, Pod: d.Holder, Basis: string(basis.Kind),
		Note: fmt.Sprintf("Term of %s with token %d ended (%s): %s", d.r.GrantHolder, d.r.Token, basis.Kind, why),
	}
	if next == nil || finished {
		l, err := d.End(basis)
		if err != nil {
			return note(err.Error())
		}
		delete(l.Annotations, v1alpha1.AnnotationBlocked)
		p.Actions = append(p.Actions, UpdateLease{l, event})
	} else {
		g := d.grant(next, basis)
		p.Notes = append(p.Notes, g.Notes...)
		p.Actions = append(p.Actions, g.Actions...)
	}
	if basis.Kind != lease.ByDeath {
		p.Actions = append(p.Actions, d.evict(why).Actions...)
	}
	p.Notes = append(p.Notes, "end: "+event.Note)
	return p
}

// disputed waits until a foreign holder has lapsed and a recorded term is over.
func (d decider) disputed() Plan {
	if basis, why, over := d.over(); over {
		return d.end(basis, why)
	}
	p := d.blocked(v1alpha1.BlockedForeignHolder, fmt.Sprintf(
		"the lease says holder %q, which no grant of Leasehold wrote; it is granted again when it has been unchanged for %s%s. "+
			"Stop whatever else elects on this Lease", d.r.Holder, d.r.Longest, d.forbidClause()))
	if !d.Lapsed(d.r) {
		p.Lapse = d.r.Longest
	}
	p.RequeueAfter = d.vouchWait()
	return p
}

func (d decider) forbidClause() string {
	if d.r.Open() && d.r.Config.OverlapPolicy == v1alpha1.OverlapForbid {
		return fmt.Sprintf(" and %s is proven to have ended", d.r.GrantHolder)
	}
	return ""
}

// unreachable is a lapse that does not end the term: under Forbid. The pod is
// removed, since its kubelet's report is the proof that is awaited.
func (d decider) unreachable() Plan {
	p := d.blocked(v1alpha1.BlockedHolderUnreachable, fmt.Sprintf(
		"%s has not renewed for %s, and overlapPolicy Forbid needs proof that it has ended: waiting for its kubelet's report%s. "+
			"Ways out: bring the node back; or, sure that the machine is off, taint it node.kubernetes.io/out-of-service; "+
			"or force-delete the pod, which counts after %s",
		d.r.GrantHolder, d.r.Longest, d.where(), d.forceDeleteWait()))
	p.Actions = append(p.Actions, d.evict("its lease has lapsed").Actions...)
	p.RequeueAfter = d.vouchWait()
	return p
}

func blockedText(reason, message string) string { return reason + ": " + message }

// splitBlocked takes the Blocked annotation apart.
func splitBlocked(text string) (reason, message string) {
	reason, message, _ = strings.Cut(text, ": ")
	return reason, message
}

func note(text string) Plan { return Plan{Notes: []string{text}} }

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
