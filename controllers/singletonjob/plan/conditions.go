// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/internal/text"
	"leasehold.dev/leaderelect/lease"
)

// maxMessage keeps messages readable, and below what the API takes.
const maxMessage = 1000

// finding is what a condition says.
type finding struct {
	is      bool
	reason  string
	message string
}

// describe writes conditions and counts. It decides nothing: it is the last
// thing that a plan adds to the status.
func (p *planner) describe() {
	p.status.ObservedGeneration = p.Job.Generation
	p.status.Standbys = 0
	for _, each := range p.pods {
		if each.waits() {
			p.status.Standbys++
		}
	}
	p.set(v1alpha1.ConditionHeld, p.held())
	p.set(v1alpha1.ConditionBlocked, p.blocked())
	p.set(v1alpha1.ConditionSuspended, p.suspension())
	if runsToCompletion(p.Job) || p.complete {
		p.set(v1alpha1.ConditionComplete, p.completion())
	}
	if runsToCompletion(p.Job) || p.failed {
		p.set(v1alpha1.ConditionFailed, p.failure())
	}
}

func (p *planner) set(kind string, f finding) {
	c := metav1.Condition{
		Type: kind, Status: metav1.ConditionFalse, Reason: f.reason, Message: f.message,
		ObservedGeneration: p.Job.Generation, LastTransitionTime: metav1.NewTime(p.Now),
	}
	if f.is {
		c.Status = metav1.ConditionTrue
	}
	c.Message = text.Cut(c.Message, maxMessage)
	meta.SetStatusCondition(&p.status.Conditions, c)
}

// held says whether there is a holder at work, or what its start waits for.
func (p *planner) held() finding {
	switch {
	case p.standing == ours && p.record.Phase() == lease.Live:
		return finding{true, ReasonLive, fmt.Sprintf("pod %s holds lease %s with fencing token %d", p.grantPod(), p.Lease.Name, p.record.Token)}
	case p.standing == ours && p.record.Phase() == lease.Granted:
		return finding{false, ReasonGranted, fmt.Sprintf("lease %s is granted to pod %s with fencing token %d, %s",
			p.Lease.Name, p.grantPod(), p.record.Token, p.startWaitsFor())}
	case p.standing == ours && p.record.Open():
		return finding{false, ReasonDisputed, fmt.Sprintf("the term of pod %s with token %d was overwritten on lease %s, or its Lease was lost; it must end first",
			p.grantPod(), p.record.Token, p.Lease.Name)}
	}
	return p.unheld()
}

func (p *planner) unheld() finding {
	switch {
	case p.complete:
		return finding{false, string(v1alpha1.ClosedCompleted), "the work has succeeded and never runs again"}
	case p.failed:
		return finding{false, string(v1alpha1.ClosedFailed), "the work has failed too often"}
	case p.deleting():
		return finding{false, string(v1alpha1.ClosedDeleting), "the job is being deleted"}
	case p.suspended():
		return finding{false, ReasonSuspended, "the job is suspended"}
	}
	next := p.nextPod()
	if h := p.status.History; len(h) > 0 {
		return finding{false, ReasonEnded, fmt.Sprintf("the term of pod %s with token %d has ended (%s); %s", h[0].Pod, h[0].Token, h[0].Reason, next)}
	}
	return finding{false, ReasonNeverGranted, "the lease was not granted yet; " + next}
}

// nextPod says what the next grant waits for.
func (p *planner) nextPod() string {
	if left := p.backoffLeft(); left > 0 && p.living() < p.wanted() {
		again := p.status.LastFailureTime.Add(backoff(p.Job, p.status.Failed))
		return "the next pod is made after a pause until " + again.UTC().Format("15:04:05") + " UTC"
	}
	for _, each := range p.pods {
		if p.active(each.ordinal) && each.alive() {
			return "pod " + each.Name + " is next" + notYet(each.Pod)
		}
	}
	return "the next pod is about to be made"
}

// notYet says what keeps a pod from being granted the lease at once, or from
// starting then.
func notYet(pod *corev1.Pod) string {
	for _, g := range pod.Spec.SchedulingGates {
		if g.Name != v1alpha1.SchedulingGate {
			return fmt.Sprintf(", once whoever set its scheduling gate %s has removed that", g.Name)
		}
	}
	if waits := podWaitsFor(pod); waits != notStarted {
		return ", " + waits
	}
	return ""
}

func (p *planner) grantPod() string {
	name, _, _ := holderParts(p.record.GrantHolder)
	return name
}

// startWaitsFor says why the granted pod's work has not begun.
func (p *planner) startWaitsFor() string {
	_, uid, _ := holderParts(p.record.GrantHolder)
	each := p.podOf(uid)
	if each == nil {
		return "which is gone"
	}
	return podWaitsFor(each.Pod)
}

// podWaitsFor says what the start of a pod waits for. Texts that a kubelet
// keeps changing while nothing changes are left out: each would be a write.
func podWaitsFor(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return "which is being deleted"
	}
	if c := podCondition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
		return "which is unschedulable: " + c.Message
	}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, s := range statuses {
			if text := containerWaitsFor(s); text != "" {
				return text
			}
		}
	}
	return notStarted
}

// notStarted is what is said of a pod of which nothing else is known.
const notStarted = "whose work has not started yet"

func containerWaitsFor(s corev1.ContainerStatus) string {
	w := s.State.Waiting
	if w == nil {
		return ""
	}
	switch w.Reason {
	case "", "PodInitializing", "ContainerCreating":
		return ""
	case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "RegistryUnavailable", "ImageInspectError":
		return fmt.Sprintf("whose container %s cannot get its image %s", s.Name, s.Image)
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		return fmt.Sprintf("whose container %s cannot start: %s: %s", s.Name, w.Reason, w.Message)
	}
	return fmt.Sprintf("whose container %s waits: %s", s.Name, w.Reason)
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &pod.Status.Conditions[i]
}

// blocked says what outside of Leasehold must happen before anything goes on.
func (p *planner) blocked() finding {
	f := finding{false, ReasonNotBlocked, ""}
	if !p.finished() || p.deleting() {
		f = p.blockedBy()
	}
	switch {
	case p.Refused == "":
		return f
	case f.is: // Which may be why there is a pod too many for a quota.
		return finding{true, f.reason, text.Cut(f.message, maxMessage-250) + ". Besides, " + p.refused()}
	}
	return finding{true, v1alpha1.BlockedWriteRefused, p.refused()}
}

func (p *planner) refused() string {
	return "the API server refuses a write that the job needs. Correct the job's template if it is at fault, " +
		"or let the quota, policy, webhook or role that refuses admit it; it is tried again. Refused: " + p.Refused
}

func (p *planner) blockedBy() finding {
	switch {
	case p.standing == foreign && !p.deleting():
		return finding{true, v1alpha1.BlockedLeaseConflict, p.conflict()}
	case p.standing == invalid:
		return finding{true, v1alpha1.BlockedInvalidLease, fmt.Sprintf("lease %s cannot be understood: %v", p.Lease.Name, p.parseErr)}
	case p.misfit != nil && !p.deleting():
		return finding{true, v1alpha1.BlockedInvalidSpec, p.unfit()}
	case p.Access == AccessForeign && p.running():
		return finding{true, ReasonRoleConflict, fmt.Sprintf("a Role or RoleBinding %s that this job does not own is in the way of the one for its pods: rename or delete it", AccessName(p.Job))}
	case len(p.Strangers) > 0 && p.running():
		return finding{true, v1alpha1.BlockedPodConflict, fmt.Sprintf("the name of pod %s is taken by a pod that this job does not own: delete that pod", p.Strangers[0])}
	case p.standing == ours && p.Lease.Annotations[v1alpha1.AnnotationBlocked] != "":
		return blockedByLease(p.Lease.Annotations[v1alpha1.AnnotationBlocked])
	}
	return finding{false, ReasonNotBlocked, ""}
}

func (p *planner) unfit() string {
	stays := "no Lease is made"
	if p.Lease != nil {
		stays = fmt.Sprintf("lease %s stays as it was", p.Lease.Name)
	}
	return fmt.Sprintf("spec.lease cannot be put into a Lease: %v. Until it is corrected, %s", p.misfit, stays)
}

func (p *planner) conflict() string {
	l := p.Lease
	if l.Labels[v1alpha1.LabelManaged] != "true" {
		return fmt.Sprintf("lease %s exists and Leasehold does not manage it: delete it if nothing uses it, or make a SingletonJob with another spec.lease.name", l.Name)
	}
	owner := "nobody"
	if c := metav1.GetControllerOf(l); c != nil {
		owner = fmt.Sprintf("%s %s (uid %s)", c.Kind, c.Name, c.UID)
	}
	if owner == "nobody" {
		return fmt.Sprintf("lease %s belongs to nobody any more: make sure that none of its pods runs, and delete it, or make a SingletonJob with another spec.lease.name", l.Name)
	}
	return fmt.Sprintf("lease %s belongs to %s: wait until it is gone, or make a SingletonJob with another spec.lease.name", l.Name, owner)
}

var conditionReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// blockedByLease reads the grant controller's "Reason: message".
func blockedByLease(text string) finding {
	reason, message, ok := strings.Cut(text, ": ")
	if !ok || !conditionReason.MatchString(reason) {
		return finding{true, v1alpha1.ConditionBlocked, text}
	}
	return finding{true, reason, message}
}

func (p *planner) suspension() finding {
	switch {
	case !p.suspended():
		return finding{false, ReasonRunning, ""}
	case p.standing == ours && p.record.Open():
		return finding{false, ReasonStopping, fmt.Sprintf("pod %s is asked to stop", p.grantPod())}
	case p.standing == ours && p.record.Closed == "" && !p.finished():
		return finding{false, ReasonStopping, "lease " + p.Lease.Name + " is about to be closed"}
	}
	return finding{true, ReasonSuspended, "spec.suspend is set and no term is open"}
}

func (p *planner) completion() finding {
	if p.complete {
		return finding{true, ReasonSucceeded, "the work has succeeded and never runs again"}
	}
	return finding{false, ReasonNotFinished, ""}
}

func (p *planner) failure() finding {
	if !p.failed {
		return finding{false, ReasonNotFinished, ""}
	}
	if c := meta.FindStatusCondition(p.status.Conditions, v1alpha1.ConditionFailed); c != nil && c.Status == metav1.ConditionTrue {
		return finding{true, c.Reason, c.Message}
	}
	return finding{true, ReasonBackoffLimit, fmt.Sprintf("the work has failed %d times; backoffLimit is %d", p.status.Failed, backoffLimit(p.Job))}
}

func conditionTrue(status *v1alpha1.SingletonJobStatus, kind string) bool {
	return meta.IsStatusConditionTrue(status.Conditions, kind)
}
