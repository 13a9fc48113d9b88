// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"leasehold.dev/api/v1alpha1"
)

// createPods creates the pods of the reserved ordinals that have none.
func (p *planner) createPods() {
	if !p.running() || p.standing != ours || p.Access == AccessForeign {
		return
	}
	for _, ordinal := range p.status.ActiveOrdinals {
		if p.podAt(ordinal) == nil && !p.stranger(ordinal) {
			p.act("an ordinal is reserved for it", CreatePod{Ordinal: ordinal, Gated: gated(p.Job)})
		}
	}
}

// deletePods deletes the pods that the job does not want, or not any more.
func (p *planner) deletePods() {
	if !p.termsKnown() && !p.deleting() {
		return
	}
	for _, each := range p.pods {
		if why := p.unwanted(each); why != "" {
			p.delete(each, why)
		}
	}
	for _, each := range p.surplus() {
		p.delete(each, "more pods than wanted")
	}
}

// delete deletes a pod. One that still waits behind its gate is deleted only as
// seen: it may just have been granted the lease, and its work be about to start.
func (p *planner) delete(each pod, why string) {
	p.act(why, DeletePod{Pod: each.Pod, SameVersion: each.gated()})
}

// unwanted says why a pod is not wanted; empty: it is, as far as it alone tells.
func (p *planner) unwanted(each pod) string {
	switch {
	case each.deleting():
		return ""
	case p.deleting():
		return "the job is being deleted"
	case !p.active(each.ordinal):
		return p.unreserved(each)
	case each.terminal():
		return "" // Its term is open; how it ended must be told first.
	case p.finished():
		return p.leftover(each)
	case p.suspended():
		return p.paused(each)
	}
	return p.replaced(each)
}

// paused is about a pod of a suspended job.
func (p *planner) paused(each pod) string {
	if each.open && p.agentHolds() {
		return "" // Asked to stop through the Lease.
	}
	return "the job is suspended"
}

// replaced is about a pod of a running job that another is to follow.
func (p *planner) replaced(each pod) string {
	switch {
	case p.outdated(each) && !each.open:
		return "an earlier revision of the template made it"
	case p.outdated(each) && p.mayReplaceHolder(each):
		return "an earlier revision of the template made the holder"
	}
	return ""
}

// unreserved is about a pod whose ordinal is not active: one that has ended and
// is on record, or one that was made from a stale view.
func (p *planner) unreserved(each pod) string {
	switch {
	case !each.terminal():
		return "its ordinal is not reserved"
	case runsToCompletion(p.Job) && p.lastFinished() == each.Pod:
		return "" // Its logs are of use.
	}
	return "it has finished"
}

// leftover is about a pod of a job that is over.
func (p *planner) leftover(each pod) string {
	if p.complete && p.record.GrantHolder == each.holder() && p.record.Outcome == v1alpha1.OutcomeSucceeded {
		return "" // Its work is done and its containers are about to end.
	}
	return "the job is over"
}

// lastFinished is the pod that finished last.
func (p *planner) lastFinished() *corev1.Pod {
	var last *corev1.Pod
	for _, each := range p.pods {
		if each.terminal() && !each.deleting() && (last == nil || !finishTime(each.Pod).Before(finishTime(last))) {
			last = each.Pod
		}
	}
	return last
}

func finishTime(pod *corev1.Pod) time.Time {
	var latest time.Time
	for _, s := range pod.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil && t.FinishedAt.After(latest) {
			latest = t.FinishedAt.Time
		}
	}
	return latest
}

// outdated reports whether the pod would be made differently now.
func (p *planner) outdated(each pod) bool {
	return each.Annotations[v1alpha1.AnnotationRevision] != p.Revision || (each.gated() && !each.open && !gated(p.Job))
}

// mayReplaceHolder reports whether an outdated holder may be stopped now: the
// standbys come first, so that one of them takes over. Work that runs to
// completion is not interrupted once it runs; its next run is up to date.
func (p *planner) mayReplaceHolder(each pod) bool {
	if runsToCompletion(p.Job) && each.Status.Phase == corev1.PodRunning {
		return false
	}
	ready := gated(p.Job)
	for _, other := range p.pods {
		switch {
		case other.UID == each.UID || !other.alive() || !p.active(other.ordinal):
		case p.outdated(other):
			return false
		case other.waits():
			ready = true
		}
	}
	return ready
}

// surplus picks pods that are too many: never the holder, rather those that do
// not run yet, then the youngest.
func (p *planner) surplus() []pod {
	if !p.running() {
		return nil
	}
	var spare []pod
	excess := p.living() - p.wanted()
	for _, each := range p.pods {
		switch {
		case !each.alive() || !p.active(each.ordinal):
		case p.unwanted(each) != "":
			excess--
		case !each.open:
			spare = append(spare, each)
		}
	}
	slices.SortFunc(spare, func(a, b pod) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.ordinal, a.ordinal))
	})
	return spare[:min(max(excess, 0), len(spare))]
}

func rank(each pod) int {
	if each.waits() {
		return 1
	}
	return 0
}

// releasePods removes our finalizer from pods whose outcome is on record.
func (p *planner) releasePods() {
	if !p.termsKnown() {
		return
	}
	for _, each := range p.pods {
		if each.over() && !p.active(each.ordinal) && slices.Contains(each.Finalizers, v1alpha1.FinalizerOutcome) &&
			(each.token == 0 || p.recorded(each.UID, each.token)) {
			p.act("its outcome is on record", RemovePodFinalizer{each.Pod})
		}
	}
}
