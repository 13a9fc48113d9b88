// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// standing is what stands under the Lease's name.
type standing int

const (
	// absent: nothing.
	absent standing = iota
	// ours: a Lease that Leasehold manages for this job.
	ours
	// foreign: a Lease that is not managed, or another owner's.
	foreign
	// invalid: ours, but it cannot be understood.
	invalid
	// unproven: ours and new. Its create may have been judged long before it
	// arrived, so it may know less of earlier terms than the job does: nothing
	// is learned from it until it was compared with a live reading.
	unproven
)

// planner holds one observation and the plan that grows from it.
type planner struct {
	Observed
	standing standing
	record   lease.Record // Zero unless ours.
	parseErr error
	misfit   error // Of spec.lease.
	pods     []pod // By ordinal.
	status   v1alpha1.SingletonJobStatus

	complete, failed bool
	plan             Plan
}

// pod is one of the job's pods with what the Lease says about it.
type pod struct {
	*corev1.Pod
	ordinal int32
	// token is the newest that the pod carries; zero: it was never granted, as
	// far as it knows.
	token int64
	// open: the pod's term has not ended.
	open bool
}

// Obstructed reports whether something that is not the job's stands where the
// job's Lease or pods belong. It may be what an earlier job left.
func Obstructed(o Observed) bool {
	return len(o.Strangers) > 0 || look(o).standing == foreign
}

func look(o Observed) *planner {
	p := &planner{Observed: o, status: *o.Job.Status.DeepCopy(), misfit: misfit(o.Job)}
	p.lookAtLease()
	p.complete = conditionTrue(&p.status, v1alpha1.ConditionComplete)
	p.failed = conditionTrue(&p.status, v1alpha1.ConditionFailed)
	for _, each := range o.Pods {
		token := tokenOf(each)
		p.pods = append(p.pods, pod{
			Pod: each, ordinal: ordinalOf(o.Job, each.Name), token: token,
			open: p.open(lease.Holder(each.Name, string(each.UID))),
		})
	}
	slices.SortFunc(p.pods, func(a, b pod) int { return cmp.Or(cmp.Compare(a.ordinal, b.ordinal), cmp.Compare(a.UID, b.UID)) })
	return p
}

func (p *planner) lookAtLease() {
	switch l := p.Lease; {
	case l == nil:
		p.standing = absent
	case l.Labels[v1alpha1.LabelManaged] != "true" || !metav1.IsControlledBy(l, p.Job):
		p.standing = foreign
	default:
		p.standing = ours
		if p.record, p.parseErr = lease.Parse(l); p.parseErr != nil {
			p.standing = invalid
		} else if p.record.Closed == v1alpha1.ClosedNew {
			p.standing, p.record = unproven, lease.Record{}
		}
	}
}

// open reports whether holder has an open term, of whatever token: a pod can
// carry the token of an earlier term, since its annotation follows the Lease.
func (p *planner) open(holder string) bool {
	return p.standing == ours && p.record.Open() && p.record.GrantHolder == holder
}

// openTerm reports whether the very term of this token is open. In a re-created
// Lease the token of an unfinished term may stand higher than the pod's.
func (p *planner) openTerm(holder string, token int64) bool {
	return p.open(holder) && (token >= p.record.Token || p.carried())
}

// carried reports whether the newest term was carried over from a Lease that
// is gone.
func (p *planner) carried() bool { return p.record.Started == lease.StartedUnknown }

// termsKnown reports whether the pods' terms can be told: by our Lease or, once
// the job is over or being deleted and nothing will be granted again, by there
// being none.
func (p *planner) termsKnown() bool {
	switch p.standing {
	case ours:
		return true
	case absent, foreign:
		return p.deleting() || p.finished()
	}
	return false
}

// gone reports whether no Lease knows the job's terms.
func (p *planner) gone() bool { return p.standing == absent || p.standing == unproven }

func (p *planner) deleting() bool  { return p.Job.DeletionTimestamp != nil }
func (p *planner) finished() bool  { return p.complete || p.failed }
func (p *planner) suspended() bool { return suspended(p.Job) }

// running reports whether the job wants pods.
func (p *planner) running() bool { return !p.deleting() && !p.finished() && !p.suspended() }

// wanted is how many pods are to run or wait.
func (p *planner) wanted() int {
	if !p.running() {
		return 0
	}
	return 1 + int(p.Job.Spec.Standbys)
}

func (p *planner) active(ordinal int32) bool {
	return slices.Contains(p.status.ActiveOrdinals, ordinal)
}

// podAt returns the pod of an ordinal; nil: there is none.
func (p *planner) podAt(ordinal int32) *pod {
	i := slices.IndexFunc(p.pods, func(each pod) bool { return each.ordinal == ordinal })
	if i < 0 {
		return nil
	}
	return &p.pods[i]
}

func (p *planner) podOf(uid types.UID) *pod {
	i := slices.IndexFunc(p.pods, func(each pod) bool { return each.UID == uid })
	if i < 0 {
		return nil
	}
	return &p.pods[i]
}

func (p *planner) stranger(ordinal int32) bool {
	return slices.Contains(p.Strangers, PodName(p.Job, ordinal))
}

func (p *planner) act(why string, a Action) {
	p.plan.Actions = append(p.plan.Actions, a)
	p.plan.Notes = append(p.plan.Notes, why)
}

func (p *planner) lookAgainIn(d time.Duration) {
	if d > 0 && (p.plan.RequeueAfter == 0 || d < p.plan.RequeueAfter) {
		p.plan.RequeueAfter = d
	}
}

func (p pod) deleting() bool { return p.DeletionTimestamp != nil }

func (p pod) terminal() bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// over reports whether the pod has ended for good as far as its lease is
// concerned: it will never be granted one again, and its term is not open. Its
// processes may still be ending.
func (p pod) over() bool { return (p.deleting() || p.terminal()) && !p.open }

// alive reports whether the pod holds, or may be granted, the lease.
func (p pod) alive() bool { return !p.deleting() && !p.terminal() }

func (p pod) gated() bool {
	return slices.ContainsFunc(p.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool {
		return g.Name == v1alpha1.SchedulingGate
	})
}

// waits reports whether the pod runs and waits for the lease.
func (p pod) waits() bool {
	return p.alive() && !p.open && !p.gated() && p.Status.Phase == corev1.PodRunning
}

func (p pod) holder() string { return lease.Holder(p.Name, string(p.UID)) }

func tokenOf(p *corev1.Pod) int64 { return decimal(p.Annotations[v1alpha1.AnnotationToken]) }

func decimal(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
