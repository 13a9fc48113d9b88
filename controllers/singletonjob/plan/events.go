// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"leasehold.dev/api/v1alpha1"
)

// tell derives the events from what the status write changes: one for each
// change, none for what goes on as before.
func (p *planner) tell() {
	for _, t := range p.plan.Ended {
		p.event(!calm(t.Reason), EventEnded, ActionEnd, "Term of pod %s with fencing token %d ended: %s", t.Pod, t.Token, t.Reason)
	}
	if n := p.status.Failed - p.Job.Status.Failed; n > 0 {
		p.event(true, EventRunFailed, ActionEnd, "The work failed; failed runs so far: %d", p.status.Failed)
	}
	p.tellHolder()
	p.tellBlocked()
	p.tellTurned(v1alpha1.ConditionSuspended, Event{Reason: EventSuspended, Action: ActionSuspend, Note: "Suspended"},
		Event{Reason: EventResumed, Action: ActionSuspend, Note: "Resumed"})
	p.tellTurned(v1alpha1.ConditionComplete, Event{Reason: EventCompleted, Action: ActionFinish, Note: "The work has succeeded"}, Event{})
	p.tellTurned(v1alpha1.ConditionFailed, Event{Warning: true, Reason: EventFailed, Action: ActionFinish,
		Note: fmt.Sprintf("The work has failed more often than backoffLimit %d allows", backoffLimit(p.Job))}, Event{})
}

func (p *planner) event(warning bool, reason, action, note string, args ...any) {
	p.plan.Events = append(p.plan.Events, Event{Warning: warning, Reason: reason, Action: action, Note: fmt.Sprintf(note, args...)})
}

// calm reports whether a term ended as somebody wished.
func calm(reason string) bool {
	switch v1alpha1.Outcome(reason) {
	case v1alpha1.OutcomeSucceeded, v1alpha1.OutcomeStopped, v1alpha1.OutcomeRestarted:
		return true
	}
	return false
}

func (p *planner) tellHolder() {
	before, now := p.Job.Status.Holder, p.status.Holder
	if now == nil {
		return
	}
	granted := before == nil || before.Token != now.Token
	if granted && !now.Started {
		p.event(false, EventGranted, ActionGrant, "Granted to pod %s with fencing token %d", now.Pod, now.Token)
	}
	if now.Started && (granted || !before.Started) {
		p.event(false, EventHeld, ActionGrant, "Pod %s holds the lease with fencing token %d", now.Pod, now.Token)
	}
}

func (p *planner) tellBlocked() {
	before := meta.FindStatusCondition(p.Job.Status.Conditions, v1alpha1.ConditionBlocked)
	now := meta.FindStatusCondition(p.status.Conditions, v1alpha1.ConditionBlocked)
	was := before != nil && before.Status == "True"
	switch {
	case now.Status == "True" && (!was || before.Reason != now.Reason):
		p.event(true, now.Reason, ActionWait, "%s", now.Message)
	case now.Status != "True" && was:
		p.event(false, EventUnblocked, ActionWait, "No longer blocked (%s)", before.Reason)
	}
}

// tellTurned tells of a condition that turned True or, having been True, False.
func (p *planner) tellTurned(kind string, on, off Event) {
	before, now := conditionTrue(&p.Job.Status, kind), conditionTrue(&p.status, kind)
	switch {
	case now && !before:
		p.plan.Events = append(p.plan.Events, on)
	case before && !now && off.Reason != "":
		p.plan.Events = append(p.plan.Events, off)
	}
}
