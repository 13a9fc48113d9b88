// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"math"
	"slices"
	"time"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// settle brings completion, failure and the ordinals up to date.
func (p *planner) settle() {
	p.noticeSuccess()
	p.countRestarts()
	if p.termsKnown() {
		p.dropOrdinals()
	}
	p.noticeFailure()
	p.reserveOrdinals()
}

// noticeSuccess decides whether the work has succeeded: the Lease was closed by
// its success, or a pod shows it where the Lease could not (its term had
// lapsed, or the Lease is gone). An open term is left to end.
func (p *planner) noticeSuccess() {
	if p.failed || p.complete {
		return
	}
	closed := p.standing == ours && p.record.Closed == v1alpha1.ClosedCompleted
	unreported := runsToCompletion(p.Job) && (p.standing == ours || p.gone()) &&
		!p.record.Open() && succeededUnreported(p.status.History, p.Pods)
	p.complete = closed || unreported
}

// dropOrdinals gives up the ordinals whose pods are over, and counts the
// failures among them: the write that drops an ordinal can succeed once.
func (p *planner) dropOrdinals() {
	kept := []int32{}
	for _, ordinal := range p.status.ActiveOrdinals {
		switch each := p.podAt(ordinal); {
		case each == nil && p.running():
			kept = append(kept, ordinal)
		case each == nil:
		case each.over():
			if p.runFailed(*each) {
				p.countFailures(1)
			}
		default:
			kept = append(kept, ordinal)
		}
	}
	p.status.ActiveOrdinals = kept
	p.dropUnborn()
	p.dropRestarts()
}

// dropUnborn gives up reserved ordinals without a pod while there are too many.
func (p *planner) dropUnborn() {
	if !p.running() {
		return
	}
	for i := len(p.status.ActiveOrdinals) - 1; i >= 0 && p.living() > p.wanted(); i-- {
		if p.podAt(p.status.ActiveOrdinals[i]) == nil {
			p.status.ActiveOrdinals = slices.Delete(p.status.ActiveOrdinals, i, i+1)
		}
	}
}

// noticeFailure decides whether the job has failed too often.
func (p *planner) noticeFailure() {
	if p.complete || p.failed || !runsToCompletion(p.Job) {
		return
	}
	// A Lease that was closed for it stays so: the decision may be one that the
	// status does not have yet.
	p.failed = p.status.Failed > backoffLimit(p.Job) || (p.standing == ours && p.record.Closed == v1alpha1.ClosedFailed)
	if p.failed {
		p.plan.Notes = append(p.plan.Notes, fmt.Sprintf("failed %d times", p.status.Failed))
	}
}

// reserveOrdinals reserves names for the pods that are missing. Whoever loses
// the status write has reserved nothing and creates nothing.
func (p *planner) reserveOrdinals() {
	missing := p.wanted() - p.living()
	if missing <= 0 || p.standing != ours || p.awaitsOutcome() {
		return
	}
	if left := p.backoffLeft(); left > 0 {
		p.lookAgainIn(left)
		return
	}
	for range missing {
		p.status.ActiveOrdinals = append(p.status.ActiveOrdinals, p.status.NextOrdinal)
		p.status.NextOrdinal++
	}
}

// living counts the pods that hold or may be granted the lease, or are about to
// be created. A holder that is being deleted does not count: its successor may
// be made meanwhile, and starts no work before it is granted the lease.
func (p *planner) living() int {
	n := 0
	for _, ordinal := range p.status.ActiveOrdinals {
		if each := p.podAt(ordinal); each == nil || each.alive() {
			n++
		}
	}
	return n
}

// awaitsOutcome reports whether a run has ended and the Lease does not say yet
// how. Its success would make another pod pointless.
func (p *planner) awaitsOutcome() bool {
	return runsToCompletion(p.Job) && slices.ContainsFunc(p.pods, func(each pod) bool { return each.terminal() && each.open })
}

func (p *planner) backoffLeft() (left time.Duration) {
	if p.status.LastFailureTime.IsZero() {
		return 0
	}
	return p.status.LastFailureTime.Add(backoff(p.Job, p.status.Failed)).Sub(p.Now)
}

// raiseLongest records a duration before the Lease gets it, and a longer one
// that the Lease has already.
func (p *planner) raiseLongest() {
	longest := LeaseConfig(p.Job, 0).Duration
	if p.standing == ours {
		longest = max(longest, p.record.Longest)
	}
	p.status.LongestDurationSeconds = max(p.status.LongestDurationSeconds, int32(min(longest/time.Second, math.MaxInt32)))
}

// raiseFloor records a block of tokens ahead, before a grant needs a token that
// the Lease's resourceVersion does not protect.
func (p *planner) raiseFloor() {
	if p.standing != ours {
		return
	}
	next := max(p.record.Token+1, p.Job.Spec.Lease.MinToken)
	if next > decimal(p.Lease.ResourceVersion) && next > p.status.TokenFloor {
		p.status.TokenFloor = min(next+floorBlock, lease.MaxToken)
	}
}
