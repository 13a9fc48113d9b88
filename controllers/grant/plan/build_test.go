// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	term   = 15 * time.Second
	takeUp = 300 * time.Second
	owner1 = "owner-1"
	nonce  = "work.boot-7.x"
)

type podEdit func(*corev1.Pod)

func pod(name string, edits ...podEdit) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "10",
			CreationTimestamp: metav1.NewTime(epoch), Annotations: map[string]string{},
			Labels: map[string]string{v1alpha1.LabelLease: "ledger"},
		},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, NodeName: "node-1", Containers: []corev1.Container{{Name: "work"}}},
	}
	for _, e := range edits {
		e(p)
	}
	return p
}

func warm(p *corev1.Pod) {
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "work", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
}

func cold(p *corev1.Pod) {
	p.Spec.NodeName = ""
	p.Status.Phase = corev1.PodPending
	p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: v1alpha1.SchedulingGate})
}

func otherGate(p *corev1.Pod) {
	p.Spec.SchedulingGates = append([]corev1.PodSchedulingGate{{Name: "example.com/quota"}}, p.Spec.SchedulingGates...)
}

func born(seconds int) podEdit {
	return func(p *corev1.Pod) {
		p.CreationTimestamp = metav1.NewTime(epoch.Add(time.Duration(seconds) * time.Second))
	}
}

func phase(ph corev1.PodPhase) podEdit { return func(p *corev1.Pod) { p.Status.Phase = ph } }

func deleting(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: epoch} }

func ended(exit int32) podEdit {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodFailed
		if exit == 0 {
			p.Status.Phase = corev1.PodSucceeded
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "work", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: exit}}}}
	}
}

// restarted is a pod whose work was started anew in place; its earlier end
// carries the nonce.
func restarted(p *corev1.Pod) {
	warm(p)
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		ExitCode: 1, Message: lease.TerminationMessage(nonce)}
}

func ownedBy(apiVersion, uid string) podEdit {
	return func(p *corev1.Pod) {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: "Owner", UID: types.UID(uid), Controller: &yes}}
	}
}

// ownedLease is one that a SingletonJob controls.
func ownedLease(l *coordinationv1.Lease) {
	yes := true
	l.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Owner", UID: owner1, Controller: &yes}}
}

var ours = ownedBy(v1alpha1.GroupVersion.String(), owner1)

func annotated(key, value string) podEdit {
	return func(p *corev1.Pod) { p.Annotations[key] = value }
}

func finalizer(name string) podEdit {
	return func(p *corev1.Pod) { p.Finalizers = append(p.Finalizers, name) }
}

func grace(seconds int64) podEdit {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

func waiting(reason string) podEdit {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "work", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
	}
}

func unschedulable(message string) podEdit {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: message}}
	}
}

type (
	leaseObject = coordinationv1.Lease
	leaseEdit   func(*leaseObject)
	uidType     = types.UID
	podObject   = corev1.Pod
)

// free returns a Lease on which nothing was granted yet, at version 100.
func free(edits ...leaseEdit) *coordinationv1.Lease {
	config := lease.Config{
		Duration: term, RenewInterval: 5 * time.Second, TakeUp: takeUp, LockDelay: 15 * time.Second, TokenFloor: lease.MaxToken,
		OverlapPolicy: v1alpha1.OverlapFence, RenewedBy: v1alpha1.RenewedByAgent,
	}
	l := lease.New(metav1.ObjectMeta{Namespace: "default", Name: "ledger", UID: "lease-uid", ResourceVersion: "100"}, config, lease.Carry{})
	delete(l.Annotations, v1alpha1.AnnotationClosed)
	return edited(l, edits)
}

func edited(l *coordinationv1.Lease, edits []leaseEdit) *coordinationv1.Lease {
	for _, e := range edits {
		e(l)
	}
	return l
}

func set(key, value string) leaseEdit {
	return func(l *coordinationv1.Lease) { l.Annotations[key] = value }
}

var (
	forbid   = set(v1alpha1.AnnotationOverlapPolicy, string(v1alpha1.OverlapForbid))
	tolerate = set(v1alpha1.AnnotationOverlapPolicy, string(v1alpha1.OverlapTolerate))
	kubelet  = set(v1alpha1.AnnotationRenewedBy, string(v1alpha1.RenewedByKubelet))
	once     = set(v1alpha1.AnnotationCloseOn, v1alpha1.CloseOnSuccess)
	closed   = set(v1alpha1.AnnotationClosed, string(v1alpha1.ClosedSuspended))
)

func going(l *coordinationv1.Lease) { l.DeletionTimestamp = &metav1.Time{Time: epoch} }

func blockedBy(reason string) leaseEdit {
	return set(v1alpha1.AnnotationBlocked, reason+": because")
}

func spec(holder string) leaseEdit {
	return func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = &holder }
}

// confirmed returns the Lease as granted to the pod with token 100, and
// confirmed by the controller, at version 101.
func confirmed(to *corev1.Pod, edits ...leaseEdit) *coordinationv1.Lease {
	l, err := lease.Observation{Lease: granted(to, append(edits, kubelet)...)}.ConfirmFor(string(to.UID), epoch)
	if err != nil {
		panic(err)
	}
	return l
}

// granted returns the Lease as granted to the pod with token 100, at version
// 101.
func granted(to *corev1.Pod, edits ...leaseEdit) *coordinationv1.Lease {
	l, err := lease.Observation{Lease: free(edits...)}.Grant(holderOf(to), "issuer", lease.Basis{Kind: lease.ByRelease}, epoch)
	if err != nil {
		panic(err)
	}
	l.ResourceVersion = "101"
	return l
}

// live returns the Lease as confirmed by the pod, at version 102.
func live(by *corev1.Pod, edits ...leaseEdit) *coordinationv1.Lease {
	start := lease.Start{Holder: holderOf(by), Token: 100, Nonce: nonce}
	l, err := lease.Observation{Lease: granted(by, edits...)}.Confirm(start, epoch)
	if err != nil {
		panic(err)
	}
	l.ResourceVersion = "102"
	return l
}

// released returns the Lease after the pod's term has ended so.
func released(by *corev1.Pod, outcome v1alpha1.Outcome, edits ...leaseEdit) *coordinationv1.Lease {
	start := lease.Start{Holder: holderOf(by), Token: 100, Nonce: nonce}
	l, err := lease.Observation{Lease: live(by, edits...)}.Release(start, outcome)
	if err != nil {
		panic(err)
	}
	l.ResourceVersion = "103"
	return l
}

// after edits a finished Lease.
func after(l *coordinationv1.Lease, edits ...leaseEdit) *coordinationv1.Lease {
	return edited(l, edits)
}

// see returns an observation of the Lease with these pods; the holder is the one
// that the grant names.
func see(l *coordinationv1.Lease, age time.Duration, pods ...*corev1.Pod) Observed {
	o := Observed{Observation: lease.Observation{Lease: l, Age: age}, Issuer: "issuer", Now: epoch.Add(time.Hour), Pods: pods}
	for _, p := range pods {
		if holderOf(p) == l.Annotations[v1alpha1.AnnotationHolder] {
			o.Holder = p
		}
	}
	return o
}

// tell renders a plan, one line an action and one for what it waits for.
func tell(p Plan) []string {
	lines := []string{}
	for _, a := range p.Actions {
		lines = append(lines, tellAction(a))
	}
	for _, w := range []struct {
		what string
		d    time.Duration
	}{{"lapse", p.Lapse}, {"take-up", p.TakeUp}, {"requeue", p.RequeueAfter}} {
		if w.d > 0 {
			lines = append(lines, fmt.Sprintf("await %s %s", w.what, w.d))
		}
	}
	return lines
}

func tellAction(a Action) string {
	switch a := a.(type) {
	case UpdateLease:
		return tellUpdate(a)
	case StampPod:
		return fmt.Sprintf("stamp %s with %s, gate %d", a.Pod.Name, a.Token, a.Gate)
	case MarkEnded:
		return fmt.Sprintf("mark %s with %s", a.Pod.Name, a.Token)
	case RemovePod:
		return "remove " + a.Pod.Name
	case RevokePod:
		return "revoke " + a.Pod.Name
	case NoteReady:
		return fmt.Sprintf("note that %s was ready with %s", a.Pod.Name, a.Token)
	case GuardPod:
		return "guard " + a.Pod.Name
	case FreePod:
		return "free " + a.Pod.Name
	}
	return fmt.Sprintf("%T", a)
}

func tellUpdate(a UpdateLease) string {
	line := "lease " + a.Event.Reason
	notes := a.Lease.Annotations
	switch a.Event.Reason {
	case ReasonGranted:
		name, _, _ := strings.Cut(*a.Lease.Spec.HolderIdentity, "_")
		line += fmt.Sprintf(" %s token %s by %s", name, notes[v1alpha1.AnnotationToken], a.Event.Basis)
	case ReasonTermEnded, ReasonWithdrawn:
		line += " " + notes[v1alpha1.AnnotationOutcome]
		if c := notes[v1alpha1.AnnotationClosed]; c != "" {
			line += " closed " + c
		}
	}
	if b := notes[v1alpha1.AnnotationBlocked]; b != "" {
		reason, _, _ := strings.Cut(b, ": ")
		line += " blocked " + reason
	}
	return line
}

func lines(l ...string) []string { return append([]string{}, l...) }

type rule struct {
	name string
	see  Observed
	want []string
}

func check(t *testing.T, rules []rule) {
	t.Helper()
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			compare(t, tell(Decide(r.see)), r.want)
		})
	}
}
