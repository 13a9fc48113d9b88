// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// Decide plans what the job needs.
func Decide(o Observed) Plan {
	p := look(o)
	if !slices.Contains(o.Job.Finalizers, v1alpha1.FinalizerJob) {
		return p.bare()
	}
	p.recordTerms()
	p.settle()
	if p.verdictIsNew() {
		return p.closeFirst()
	}
	p.raiseFloor()
	p.raiseLongest()
	p.describe()
	p.tell()
	p.planLease()
	p.releasePods() // Before deletions, which move the pods' versions.
	p.deletePods()
	p.planAccess()
	p.createPods() // After what makes room under a quota.
	p.releaseJob()
	p.awaitStrangers()
	p.plan.Status = p.status
	return p.plan
}

// bare is for a job without our finalizer: it gets one before anything is made
// for it, or is let go without.
func (p *planner) bare() Plan {
	if !p.deleting() {
		p.tellRefused()
		p.act("a job is deleted in order", AddJobFinalizer{})
	}
	p.plan.Status = p.status
	return p.plan
}

// verdictIsNew reports whether the job is found to be over, and its Lease is
// still open. A Lease that is missing, foreign or closed for another reason is
// never opened without a live look at the job.
func (p *planner) verdictIsNew() bool {
	return p.finished() && p.standing == ours && p.record.Closed == ""
}

// closeFirst plans nothing but to close the Lease. The status says that the job
// is over only when its Lease, seen closed, has said so before: otherwise
// whoever grants in between would grant finished work again.
func (p *planner) closeFirst() Plan {
	p.plan = Plan{}
	p.status = *p.Job.Status.DeepCopy()
	p.tellRefused()
	p.updateLease()
	for i, a := range p.plan.Actions {
		if u, ok := a.(UpdateLease); ok {
			u.SameJob = true
			p.plan.Actions[i] = u
		}
	}
	p.plan.Status = p.status
	return p.plan
}

// tellRefused is for plans that describe nothing else: nothing would say why they
// are not carried out.
func (p *planner) tellRefused() {
	if p.Refused != "" {
		p.set(v1alpha1.ConditionBlocked, p.blocked())
		p.tellBlocked()
	}
}

// planLease brings the Lease into being, up to date, or to its end.
func (p *planner) planLease() {
	switch {
	case p.standing == absent && p.misfit == nil && !p.deleting() && !p.finished():
		p.act("the job has no Lease", CreateLease{})
	case p.standing == unproven:
		p.proveLease()
	case p.standing == ours && p.record.Open():
		p.updateLease()
	case p.standing == ours:
		p.planFreeLease()
	}
}

// planFreeLease is about a Lease without an open term.
func (p *planner) planFreeLease() {
	switch {
	case p.Lease.DeletionTimestamp != nil:
		if slices.Contains(p.Lease.Finalizers, v1alpha1.FinalizerLease) {
			p.act("the Lease is deleted, and its term's outcome is on record", RemoveLeaseFinalizer{p.Lease})
		}
	case p.deleting() && p.closedForGood():
		p.act("the job is deleted, and no term is open", DeleteLease{p.Lease})
	default:
		p.updateLease()
	}
}

// proveLease opens a new Lease, or closes it for a better reason, once it has
// been compared with what is known of earlier terms.
func (p *planner) proveLease() {
	want := p.closed()
	closed, err := lease.Observation{Lease: p.configured()}.SetClosed(want)
	if err != nil {
		p.plan.Notes = append(p.plan.Notes, err.Error())
		return
	}
	p.act("a new Lease is compared with what is known of earlier terms", ProveLease{Seen: p.Lease, Lease: closed, Opens: want == ""})
}

// closedForGood reports whether nothing can be granted while the Lease is being
// deleted.
func (p *planner) closedForGood() bool {
	switch p.record.Closed {
	case v1alpha1.ClosedDeleting, v1alpha1.ClosedCompleted, v1alpha1.ClosedFailed:
		return true
	}
	return false
}

// updateLease writes configuration, closing and the request to end in one
// write.
func (p *planner) updateLease() {
	l := p.configured()
	opens := false
	if want := p.closed(); p.record.Closed != want && p.record.Closed != v1alpha1.ClosedCompleted {
		closed, err := lease.Observation{Lease: l}.SetClosed(want)
		if err != nil {
			p.plan.Notes = append(p.plan.Notes, err.Error())
			return
		}
		l, opens = closed, want == ""
	}
	if p.asksToStop() {
		if asked, err := (lease.Observation{Lease: l}).RequestEnd(); err == nil {
			l = asked
		}
	}
	if !equality.Semantic.DeepEqual(p.Lease.Annotations, l.Annotations) {
		p.act("the Lease differs from what the job says", UpdateLease{Lease: l, Opens: opens})
	}
}

// configured is the Lease with what the job says, if that can be understood; a
// Lease that cannot would grant nothing, nor take in how a term ended.
func (p *planner) configured() *coordinationv1.Lease {
	l := p.Lease.DeepCopy()
	if p.misfit == nil {
		LeaseConfig(p.Job, p.status.TokenFloor).Write(l)
	}
	return l
}

// misfit says why what the job says cannot be put into a Lease. The API server
// refuses such a job, but not one that was stored before it did.
func misfit(job *v1alpha1.SingletonJob) error {
	if job.Namespace == corev1.NamespaceNodeLease {
		return fmt.Errorf("namespace %s is for the nodes' own Leases: make the job in another namespace", job.Namespace)
	}
	l := lease.New(metav1.ObjectMeta{Name: LeaseName(job)}, LeaseConfig(job, job.Status.TokenFloor), lease.Carry{})
	_, err := lease.Parse(l)
	return err
}

// closed is why nothing may be granted; empty: it may.
func (p *planner) closed() v1alpha1.Closed {
	switch {
	case p.deleting():
		return v1alpha1.ClosedDeleting
	case p.complete:
		return v1alpha1.ClosedCompleted
	case p.failed:
		return v1alpha1.ClosedFailed
	case p.suspended():
		return v1alpha1.ClosedSuspended
	}
	return ""
}

// asksToStop reports whether the holder is asked through the Lease to stop its
// work: its agent stops it in order, and the pod is deleted once it has.
func (p *planner) asksToStop() bool {
	return p.suspended() && p.agentHolds() && p.record.EndRequested != p.record.Token
}

// agentHolds reports whether a confirmed holder's agent reads the Lease.
func (p *planner) agentHolds() bool {
	return p.standing == ours && p.record.Phase() == lease.Live && p.record.Config.RenewedBy != v1alpha1.RenewedByKubelet
}

func (p *planner) planAccess() {
	if p.Access == AccessOutdated && !p.deleting() && !p.finished() && p.standing == ours {
		p.act("the pods need access to their Lease", ApplyAccess{})
	}
}

// releaseJob lets the job go once nothing of it is left to end in order.
func (p *planner) releaseJob() {
	if !p.deleting() || (p.standing != absent && p.standing != foreign) {
		return
	}
	if !slices.ContainsFunc(p.pods, func(each pod) bool { return slices.Contains(each.Finalizers, v1alpha1.FinalizerOutcome) }) {
		p.act("Lease and pods have ended", RemoveJobFinalizer{})
	}
}

// awaitStrangers looks again at what stands in the way, since no watch may tell
// of its end.
func (p *planner) awaitStrangers() {
	if p.running() && (p.standing == foreign || p.Access == AccessForeign || len(p.Strangers) > 0) {
		p.lookAgainIn(lookAgain)
	}
}

// AccessName is the name of the Role and RoleBinding of the job's pods.
func AccessName(job *v1alpha1.SingletonJob) string { return "leasehold-" + job.Name }
