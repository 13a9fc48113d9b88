// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

const (
	revision = "rev-1"
	nonce    = "app.boot-1.x"
)

// scene is an observation under construction. Its job is named "j".
type scene struct {
	Observed
	version int
}

func newScene(changes ...func(*v1alpha1.SingletonJob)) *scene {
	job := &v1alpha1.SingletonJob{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "j", UID: "job", Generation: 1, Finalizers: []string{v1alpha1.FinalizerJob},
	}}
	job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app"}}
	for _, change := range changes {
		change(job)
	}
	return &scene{Observed: Observed{Now: noon, Job: job, Access: AccessCurrent, Revision: revision}, version: 100}
}

func policy(p corev1.RestartPolicy) func(*v1alpha1.SingletonJob) {
	return func(job *v1alpha1.SingletonJob) { job.Spec.Template.Spec.RestartPolicy = p }
}

func standbys(n int32) func(*v1alpha1.SingletonJob) {
	return func(job *v1alpha1.SingletonJob) { job.Spec.Standbys = n }
}

func kubelet(job *v1alpha1.SingletonJob) { job.Spec.Lease.RenewedBy = v1alpha1.RenewedByKubelet }

func suspend(job *v1alpha1.SingletonJob) { job.Spec.Suspend = ptr.To(true) }

// unfit makes the job one that the API server would refuse.
func unfit(job *v1alpha1.SingletonJob) { job.Spec.Lease.DurationSeconds = 1 }

func deleted(job *v1alpha1.SingletonJob) { job.DeletionTimestamp = ptr.To(metav1.NewTime(noon)) }

func is(condition string) func(*v1alpha1.SingletonJob) {
	return func(job *v1alpha1.SingletonJob) {
		job.Status.Conditions = append(job.Status.Conditions, metav1.Condition{
			Type: condition, Status: metav1.ConditionTrue, Reason: "Earlier", Message: "earlier", LastTransitionTime: metav1.NewTime(noon),
		})
	}
}

func active(ordinals ...int32) func(*v1alpha1.SingletonJob) {
	return func(job *v1alpha1.SingletonJob) {
		job.Status.ActiveOrdinals = ordinals
		job.Status.NextOrdinal = slices.Max(append([]int32{job.Status.NextOrdinal - 1}, ordinals...)) + 1
	}
}

// withLease gives the job its Lease: open, and up to date.
func (s *scene) withLease() *scene {
	meta := metav1.ObjectMeta{
		Namespace: "ns", Name: LeaseName(s.Job), UID: "lease",
		OwnerReferences: []metav1.OwnerReference{{Kind: "SingletonJob", Name: "j", UID: s.Job.UID, Controller: ptr.To(true)}},
	}
	s.Lease = lease.New(meta, LeaseConfig(s.Job, s.Job.Status.TokenFloor), lease.Carry{})
	delete(s.Lease.Annotations, v1alpha1.AnnotationClosed)
	s.wrote()
	return s
}

func (s *scene) wrote() {
	s.version++
	s.Lease.ResourceVersion = fmt.Sprint(s.version)
}

// step does a step of the protocol on the Lease.
func (s *scene) step(do func(lease.Observation) (*coordinationv1.Lease, error)) *scene {
	l, err := do(lease.Observation{Lease: s.Lease, Age: time.Hour})
	if err != nil {
		panic(err)
	}
	s.Lease = l
	s.wrote()
	return s
}

func (s *scene) edit(change func(*coordinationv1.Lease)) *scene {
	change(s.Lease)
	return s
}

func (s *scene) record() lease.Record {
	r, err := lease.Parse(s.Lease)
	if err != nil {
		panic(err)
	}
	return r
}

func (s *scene) start() lease.Start {
	r := s.record()
	return lease.Start{Holder: r.GrantHolder, Token: r.Token, Nonce: nonce}
}

// granted grants to the pod, on whatever basis is needed, and stamps it.
func (s *scene) granted(ordinal int32) *scene {
	p := s.at(ordinal)
	s.step(func(o lease.Observation) (*coordinationv1.Lease, error) {
		return o.Grant(lease.Holder(p.Name, string(p.UID)), "c/ns/j", lease.Basis{Kind: lease.ByLapse}, noon)
	})
	p.Annotations[v1alpha1.AnnotationToken] = s.Lease.Annotations[v1alpha1.AnnotationToken]
	p.Spec.SchedulingGates = nil
	return s
}

func (s *scene) confirmed() *scene {
	return s.step(func(o lease.Observation) (*coordinationv1.Lease, error) { return o.Confirm(s.start(), noon) })
}

func (s *scene) released(outcome v1alpha1.Outcome) *scene {
	return s.step(func(o lease.Observation) (*coordinationv1.Lease, error) { return o.Release(s.start(), outcome) })
}

func (s *scene) lapsed() *scene {
	return s.step(func(o lease.Observation) (*coordinationv1.Lease, error) {
		return o.End(lease.Basis{Kind: lease.ByLapse})
	})
}

// died ends the term by a proof of death.
func (s *scene) died() *scene {
	return s.step(func(o lease.Observation) (*coordinationv1.Lease, error) {
		r := s.record()
		return o.End(lease.Basis{Kind: lease.ByDeath, Holder: r.GrantHolder, Started: r.Started})
	})
}

func (s *scene) closed(why v1alpha1.Closed) *scene {
	return s.step(func(o lease.Observation) (*coordinationv1.Lease, error) { return o.SetClosed(why) })
}

// withPod adds a pod as it was created.
func (s *scene) withPod(ordinal int32, changes ...func(*corev1.Pod)) *scene {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: PodName(s.Job, ordinal), UID: types.UID(fmt.Sprintf("u%d", ordinal)), ResourceVersion: "1",
		Finalizers:  []string{v1alpha1.FinalizerOutcome},
		Annotations: map[string]string{v1alpha1.AnnotationRevision: revision},
	}}
	if gated(s.Job) {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.SchedulingGate}}
	}
	p.Spec.Containers = []corev1.Container{{Name: "app"}}
	p.Spec.RestartPolicy = RestartPolicy(s.Job)
	s.Pods = append(s.Pods, p)
	return s.pod(ordinal, changes...)
}

func (s *scene) at(ordinal int32) *corev1.Pod {
	i := slices.IndexFunc(s.Pods, func(p *corev1.Pod) bool { return p.Name == PodName(s.Job, ordinal) })
	return s.Pods[i]
}

func (s *scene) pod(ordinal int32, changes ...func(*corev1.Pod)) *scene {
	for _, change := range changes {
		change(s.at(ordinal))
	}
	return s
}

func (s *scene) job(changes ...func(*v1alpha1.SingletonJob)) *scene {
	for _, change := range changes {
		change(s.Job)
	}
	return s
}

func (s *scene) refused(text string) *scene {
	s.Refused = text
	return s
}

func (s *scene) status(change func(*v1alpha1.SingletonJobStatus)) *scene {
	change(&s.Job.Status)
	return s
}

// seen makes the status what the plan for the scene so far would write.
func (s *scene) seen() *scene {
	s.Job.Status = Decide(s.Observed).Status
	return s
}

func goes(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(noon)) }

func runs(p *corev1.Pod) {
	p.Spec.NodeName, p.Spec.SchedulingGates = "node", nil
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
}

func ends(code int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		runs(p)
		p.Status.Phase = corev1.PodSucceeded
		if code != 0 {
			p.Status.Phase = corev1.PodFailed
		}
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
}

// endedBefore makes code the status with which the work's earlier start ended.
func endedBefore(code int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: code}
	}
}

// refusedByNode is what a kubelet says of a pod that it does not admit.
func refusedByNode(p *corev1.Pod) {
	p.Status.Reason, p.Status.Message = "OutOfcpu", "Pod was rejected: Node didn't have enough resource: cpu"
}

func restarted(n int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.ContainerStatuses[0].RestartCount = n }
}

func old(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationRevision] = "rev-0" }

// render renders the actions, one a line.
func render(p Plan) []string {
	lines := []string{}
	for _, a := range p.Actions {
		lines = append(lines, renderAction(a))
	}
	return lines
}

func renderAction(a Action) string {
	switch a := a.(type) {
	case CreatePod:
		return fmt.Sprintf("create %d gated=%t", a.Ordinal, a.Gated)
	case DeletePod:
		return fmt.Sprintf("delete %s same=%t", a.Pod.Name, a.SameVersion)
	case RemovePodFinalizer:
		return "release " + a.Pod.Name
	case ProveLease:
		return fmt.Sprintf("prove lease closed=%q opens=%t", a.Lease.Annotations[v1alpha1.AnnotationClosed], a.Opens)
	case UpdateLease:
		annotations := a.Lease.Annotations
		return fmt.Sprintf("update lease closed=%q end=%q floor=%s opens=%t", annotations[v1alpha1.AnnotationClosed],
			annotations[v1alpha1.AnnotationEndRequested], annotations[v1alpha1.AnnotationTokenFloor], a.Opens)
	}
	return strings.TrimPrefix(strings.Fields(fmt.Sprintf("%T", a))[0], "plan.")
}

func conditionOf(status v1alpha1.SingletonJobStatus, kind string) string {
	for _, c := range status.Conditions {
		if c.Type == kind {
			return string(c.Status) + "/" + c.Reason
		}
	}
	return ""
}

func messageOf(status v1alpha1.SingletonJobStatus, kind string) string {
	for _, c := range status.Conditions {
		if c.Type == kind {
			return c.Message
		}
	}
	return ""
}

func reasons(p Plan) string {
	var all []string
	for _, e := range p.Events {
		all = append(all, e.Reason)
	}
	return strings.Join(all, " ")
}

func historyOf(status v1alpha1.SingletonJobStatus) string {
	var all []string
	for _, t := range status.History {
		all = append(all, fmt.Sprintf("%s:%d %s", t.Pod, t.Token, t.Reason))
	}
	return strings.Join(all, ", ")
}

func wantEqual[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}
