// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
	"leasehold.dev/leaderelect/lease/death"
)

// recordTerms adds to the history every term that has ended since it was last
// written, as far as Lease, status and pods still name it.
func (p *planner) recordTerms() {
	switch {
	case p.termsKnown():
		p.recordHolder()
		p.recordReleased()
		p.recordPods()
	case p.gone():
		p.recordProvenDead()
	}
	slices.SortStableFunc(p.status.History, func(a, b v1alpha1.TermStatus) int { return cmp.Compare(b.Token, a.Token) })
	p.status.History = p.status.History[:min(len(p.status.History), historyLimit)]
	p.describeHolder()
}

// recordHolder records the term of the holder that the status names, if it is
// over. The Lease may name its successor already.
func (p *planner) recordHolder() {
	h := p.status.Holder
	if h == nil || p.openTerm(lease.Holder(h.Pod, string(h.UID)), h.Token) {
		return
	}
	p.add(h.Token, h.Pod, h.UID)
}

// recordReleased records the newest term that the Lease says has ended.
func (p *planner) recordReleased() {
	r := p.record
	if r.Released == 0 {
		return
	}
	if name, uid, ok := holderParts(r.GrantHolder); ok && r.Released == r.Token {
		if !p.carried() || !p.recorded(uid, 0) {
			p.add(r.Released, name, uid)
		}
		return
	}
	for _, each := range p.pods {
		if each.token == r.Released || decimal(each.Annotations[v1alpha1.AnnotationEndedToken]) == r.Released {
			p.add(r.Released, each.Name, each.UID)
		}
	}
}

// recordPods records the terms of pods that nobody saw end.
func (p *planner) recordPods() {
	for _, each := range p.pods {
		if each.token > 0 && !p.openTerm(each.holder(), each.token) && !p.recorded(each.UID, each.token) {
			p.add(each.token, each.Name, each.UID)
		}
	}
}

// recordProvenDead records, where the Lease is gone, the newest term if its
// kubelet's report proves that its pod has ended. Another is carried over into
// the next Lease.
func (p *planner) recordProvenDead() {
	t := newestTerm(p.Job, p.Pods)
	if each := p.podOf(t.uid); t.unfinished && each != nil && death.Judge(each.Pod, lease.StartedUnknown).Dead {
		p.add(t.token, t.pod, t.uid)
	}
}

func (p *planner) add(token int64, name string, uid types.UID) {
	if slices.ContainsFunc(p.status.History, func(t v1alpha1.TermStatus) bool { return t.Token == token }) {
		return
	}
	t := v1alpha1.TermStatus{
		Token: token, Pod: name, UID: uid,
		Reason: string(p.outcome(token, name, uid)), EndTime: metav1.NewTime(p.Now),
	}
	p.status.History = append(p.status.History, t)
	p.plan.Ended = append(p.plan.Ended, t)
	p.countTerm(t)
}

// outcome says how a term ended, if the Lease still does, or the pod itself.
func (p *planner) outcome(token int64, name string, uid types.UID) v1alpha1.Outcome {
	r := p.record
	carried := p.carried() && r.Released == r.Token && r.GrantHolder == lease.Holder(name, string(uid))
	if r.Released > 0 && (r.Released == token || carried) && r.Outcome != "" {
		return r.Outcome
	}
	each := p.podOf(uid)
	if !p.gone() || each == nil {
		return v1alpha1.OutcomeUnknown
	}
	switch proof := death.Judge(each.Pod, lease.StartedUnknown); {
	case proof.Succeeded:
		return v1alpha1.OutcomeSucceeded
	case proof.Dead:
		return v1alpha1.OutcomeDied
	}
	return v1alpha1.OutcomeUnknown
}

// recorded reports whether the history has the pod's term of this token, or a
// later one, which says as much, or is too short to have it still.
func (p *planner) recorded(uid types.UID, token int64) bool {
	later := 0
	for _, t := range p.status.History {
		if t.UID == uid && t.Token >= token {
			return true
		}
		if t.Token > token {
			later++
		}
	}
	return token > 0 && later >= historyLimit
}

// describeHolder keeps the status's holder in step with the Lease. Where the
// Lease is gone it stays until its end is on record: it is what is carried over
// into the next Lease.
func (p *planner) describeHolder() {
	h := p.status.Holder
	switch {
	case p.standing == ours && p.record.Open():
		p.status.Holder = p.holderNow(h)
	case p.standing == ours, p.termsKnown(), h != nil && p.recorded(h.UID, h.Token):
		p.status.Holder = nil
	}
	p.status.Transitions = max(p.status.Transitions, p.record.Transitions)
}

func (p *planner) holderNow(before *v1alpha1.HolderStatus) *v1alpha1.HolderStatus {
	r := p.record
	name, uid, ok := holderParts(r.GrantHolder)
	if !ok {
		return nil
	}
	if before != nil && before.UID == uid && p.carried() {
		return before // It knows the term's own token.
	}
	h := &v1alpha1.HolderStatus{Pod: name, UID: uid, Token: r.Token, Started: r.Started != "", AcquireTime: metav1.NewMicroTime(r.AcquireTime)}
	if each := p.podOf(uid); each != nil {
		h.Node = each.Spec.NodeName
	} else if before != nil && before.UID == uid {
		h.Node = before.Node
	}
	return h
}

// term is what is known of one term without a Lease.
type term struct {
	token      int64
	pod        string
	uid        types.UID
	unfinished bool
}

// newestTerm finds the newest term that history, status and pods know of. Only
// the newest can be unfinished: a lease has one open term at a time, and a
// later grant is proof that the earlier term had ended.
func newestTerm(job *v1alpha1.SingletonJob, pods []*corev1.Pod) term {
	var newest term
	see := func(t term) {
		if t.token > newest.token {
			newest = t
		}
	}
	for _, t := range job.Status.History {
		see(term{t.Token, t.Pod, t.UID, false})
	}
	if h := job.Status.Holder; h != nil {
		see(term{h.Token, h.Pod, h.UID, true})
	}
	for _, each := range pods {
		see(term{tokenOf(each), each.Name, each.UID, true})
	}
	return newest
}

// CarryOf says what a new Lease of the job must know of earlier terms, from
// live reads of the job and its pods. ok is false where no Lease may be made:
// the pods show a success that is not on record yet.
func CarryOf(job *v1alpha1.SingletonJob, pods []*corev1.Pod) (_ lease.Carry, ok bool) {
	if runsToCompletion(job) && succeededUnreported(job.Status.History, pods) {
		return lease.Carry{}, false
	}
	t := newestTerm(job, pods)
	carry := lease.Carry{Token: max(t.token, job.Status.TokenFloor), Transitions: job.Status.Transitions,
		Longest: time.Duration(job.Status.LongestDurationSeconds) * time.Second}
	if t.unfinished {
		carry.Holder = lease.Holder(t.pod, string(t.uid))
	}
	return carry, true
}

// Knows reports whether a new Lease knows as much of earlier terms as live reads
// of the job and its pods show: the newest token, the longest duration, and the
// holder of a term that is unfinished.
func Knows(l *coordinationv1.Lease, job *v1alpha1.SingletonJob, pods []*corev1.Pod) bool {
	carry, ok := CarryOf(job, pods)
	r, err := lease.Parse(l)
	if !ok || err != nil || r.Token < carry.Token || r.Longest < carry.Longest {
		return false
	}
	return carry.Holder == "" || (r.Open() && r.GrantHolder == carry.Holder)
}

// succeededUnreported reports whether a pod shows a success that its Lease could
// not take in. Work that was asked to stop, and ended with status 0 for that, is
// not done: its agent has said so on the Lease.
func succeededUnreported(history []v1alpha1.TermStatus, pods []*corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(p *corev1.Pod) bool {
		return hasSucceeded(p) && !slices.ContainsFunc(history, func(t v1alpha1.TermStatus) bool {
			return t.UID == p.UID && t.Token >= tokenOf(p) && t.Reason == string(v1alpha1.OutcomeStopped)
		})
	})
}

// hasSucceeded reports whether a pod's work has run and succeeded. Only a
// kubelet writes this phase; the garbage collector writes Failed.
func hasSucceeded(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded && tokenOf(p) > 0
}
