// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// model is an API server with one job, and everybody who acts on it: the grant
// controller, kubelets, users, and managers that plan from views of any age and
// stop between any two writes. Writes are conditional on versions, as real ones.
type model struct {
	*rapid.T
	now      time.Time
	version  int
	uids     int
	job      *v1alpha1.SingletonJob // nil: gone.
	lease    *coordinationv1.Lease
	pods     map[string]*corev1.Pod
	revision string

	views   []Observed // What managers may still believe of job and pods.
	pending []*work

	// lastToken is the greatest ever granted, over all Leases.
	lastToken int64
	finished  bool // On record.
	// longest is the longest duration that any term was granted with.
	longest time.Duration
	// working is the holder whose confirmed term has not ended, by the word of
	// those who end terms: it survives the Lease.
	working string
}

// work is what a manager has not written yet of a plan.
type work struct {
	job     *v1alpha1.SingletonJob
	plan    Plan
	written bool // The status.
}

func newModel(t *rapid.T) *model {
	m := &model{T: t, now: noon, version: 1000, pods: map[string]*corev1.Pod{}, revision: "1"}
	job := &v1alpha1.SingletonJob{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "j", UID: "job"}}
	job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app"}}
	job.Spec.Template.Spec.RestartPolicy = rapid.SampledFrom([]corev1.RestartPolicy{"", never, onFailure}).Draw(t, "policy")
	job.Spec.Standbys = rapid.Int32Range(0, 2).Draw(t, "standbys")
	job.Spec.Lease.MinToken = rapid.SampledFrom([]int64{0, 1 << 40}).Draw(t, "minToken")
	job.Spec.BackoffLimit = ptr.To(rapid.Int32Range(0, 3).Draw(t, "backoffLimit"))
	m.job = job
	m.touch(job)
	return m
}

func (m *model) touch(o metav1.Object) {
	m.version++
	o.SetResourceVersion(strconv.Itoa(m.version))
}

// observe looks at everything; job and pods as they are in a view.
func (m *model) observe(view *Observed) Observed {
	o := Observed{Now: m.now, Job: m.job, Access: AccessCurrent, Revision: m.revision}
	if view != nil {
		o.Job, o.Pods = view.Job, view.Pods
	} else {
		for _, name := range m.podNames() {
			o.Pods = append(o.Pods, m.pods[name])
		}
	}
	o.Job = o.Job.DeepCopy()
	o.Pods = slices.Clone(o.Pods)
	for i, p := range o.Pods {
		o.Pods[i] = p.DeepCopy()
	}
	for _, ordinal := range o.Job.Status.ActiveOrdinals {
		name := PodName(o.Job, ordinal)
		if live := m.pods[name]; live != nil && !slices.ContainsFunc(o.Pods, func(p *corev1.Pod) bool { return p.Name == name }) {
			o.Pods = append(o.Pods, live.DeepCopy())
		}
	}
	if m.lease != nil {
		o.Lease = m.lease.DeepCopy()
	}
	return o
}

func (m *model) podNames() []string {
	names := []string{}
	for name := range m.pods {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// decide plans from an observation, and checks what every plan must keep to.
func (m *model) decide(o Observed) *work {
	p := Decide(o)
	m.check(o, p)
	return &work{job: o.Job, plan: p}
}

func (m *model) check(o Observed, p Plan) {
	before, after := o.Job.Status, p.Status
	if after.NextOrdinal < before.NextOrdinal || after.Failed < before.Failed || after.TokenFloor < before.TokenFloor || after.Transitions < before.Transitions {
		m.Fatalf("a counter goes back: %+v, was %+v", after, before)
	}
	for _, kind := range []string{v1alpha1.ConditionComplete, v1alpha1.ConditionFailed} {
		if conditionTrue(&before, kind) && !conditionTrue(&after, kind) {
			m.Fatalf("%s is taken back", kind)
		}
	}
	over := conditionTrue(&after, v1alpha1.ConditionComplete) || conditionTrue(&after, v1alpha1.ConditionFailed)
	for _, a := range p.Actions {
		switch a := a.(type) {
		case CreateLease:
			if over || o.Job.DeletionTimestamp != nil {
				m.Fatalf("a Lease for a job that is over")
			}
		case UpdateLease:
			m.checkUpdate(o, a, after, over)
		case ProveLease:
			m.checkUpdate(o, UpdateLease{Lease: a.Lease, Opens: a.Opens}, after, over)
		case CreatePod:
			if !slices.Contains(after.ActiveOrdinals, a.Ordinal) || a.Ordinal >= after.NextOrdinal || over {
				m.Fatalf("pod %d is not reserved in %+v", a.Ordinal, after)
			}
		case RemovePodFinalizer:
			m.checkRelease(o, a.Pod, after)
		}
	}
}

func (m *model) checkUpdate(o Observed, a UpdateLease, after v1alpha1.SingletonJobStatus, over bool) {
	if a.Lease.UID != o.Lease.UID || a.Lease.ResourceVersion != o.Lease.ResourceVersion {
		m.Fatalf("the Lease is written on another version than was seen")
	}
	r, err := lease.Parse(a.Lease)
	if err != nil {
		m.Fatalf("the Lease written cannot be understood: %v", err)
	}
	if r.Config.TokenFloor > after.TokenFloor {
		m.Fatalf("the Lease permits tokens up to %d, on record is %d", r.Config.TokenFloor, after.TokenFloor)
	}
	if r.Closed == "" && (over || o.Job.DeletionTimestamp != nil) {
		m.Fatalf("the Lease of a job that is over is open")
	}
}

func (m *model) checkRelease(o Observed, pod *corev1.Pod, after v1alpha1.SingletonJobStatus) {
	ordinal := ordinalOf(o.Job, pod.Name)
	if slices.Contains(after.ActiveOrdinals, ordinal) {
		m.Fatalf("pod %s is let go while its ordinal is active", pod.Name)
	}
	if o.Lease != nil {
		if r, err := lease.Parse(o.Lease); err != nil || (r.Open() && r.GrantHolder == lease.Holder(pod.Name, string(pod.UID))) {
			m.Fatalf("pod %s is let go while its term is open", pod.Name)
		}
	}
	token := tokenOf(pod)
	later := 0
	for _, t := range after.History {
		if t.UID == pod.UID && t.Token >= token {
			return
		}
		if t.Token > token {
			later++
		}
	}
	if token > 0 && later < historyLimit {
		m.Fatalf("pod %s is let go, and token %d is not on record: %v", pod.Name, token, after.History)
	}
}

// write does the next write of some work; false: there is none, or it was lost.
func (m *model) write(w *work) bool {
	if !w.written {
		w.written = true
		if cmpStatus(w.job.Status, w.plan.Status) {
			return true
		}
		if m.job == nil || m.job.ResourceVersion != w.job.ResourceVersion {
			return false
		}
		m.job.Status = *w.plan.Status.DeepCopy()
		m.finished = m.finished || Finished(m.job)
		m.touch(m.job)
		w.job = m.job.DeepCopy()
		return true
	}
	if len(w.plan.Actions) == 0 {
		return false
	}
	a := w.plan.Actions[0]
	w.plan.Actions = w.plan.Actions[1:]
	return m.act(w, a)
}

func (m *model) act(w *work, a Action) bool {
	switch a := a.(type) {
	case AddJobFinalizer, RemoveJobFinalizer:
		return m.actOnJob(w, a)
	case CreateLease:
		return m.createLease()
	case ProveLease:
		return m.proveLease(a)
	case UpdateLease, RemoveLeaseFinalizer, DeleteLease:
		if u, ok := a.(UpdateLease); ok && u.SameJob && (m.job == nil || m.job.ResourceVersion != w.job.ResourceVersion) {
			return false
		}
		return m.actOnLease(a)
	case CreatePod:
		if m.job == nil || m.job.ResourceVersion != w.job.ResourceVersion {
			return false
		}
		return m.createPod(w, a)
	case DeletePod:
		p := m.pods[a.Pod.Name]
		if p != nil && p.UID == a.Pod.UID && (!a.SameVersion || p.ResourceVersion == a.Pod.ResourceVersion) {
			m.deletePod(p)
		}
	case RemovePodFinalizer:
		p := m.pods[a.Pod.Name]
		if p != nil && p.ResourceVersion == a.Pod.ResourceVersion {
			p.Finalizers = nil
			m.touch(p)
			m.vanish(p)
		}
	}
	return true
}

func (m *model) actOnJob(w *work, a Action) bool {
	if m.job == nil || m.job.ResourceVersion != w.job.ResourceVersion {
		return false
	}
	if _, ok := a.(AddJobFinalizer); ok {
		m.job.Finalizers = []string{v1alpha1.FinalizerJob}
		m.touch(m.job)
		w.job = m.job.DeepCopy()
		return true
	}
	for _, p := range m.pods {
		if len(p.Finalizers) > 0 {
			return false
		}
	}
	m.job, m.pods, m.lease = nil, map[string]*corev1.Pod{}, nil // And the garbage collector.
	return true
}

func (m *model) createLease() bool {
	if m.job == nil || m.job.DeletionTimestamp != nil || Finished(m.job) || m.lease != nil {
		return false
	}
	o := m.observe(nil)
	carry, ok := CarryOf(o.Job, o.Pods)
	if !ok {
		return false
	}
	for _, p := range m.pods {
		if holder := lease.Holder(p.Name, string(p.UID)); holder == m.working && tokenOf(p) == m.lastToken && p.Status.Phase == corev1.PodRunning && carry.Holder != holder {
			m.Fatalf("%s works, and the new Lease carries %q", holder, carry.Holder)
		}
	}
	m.lease = lease.New(metav1.ObjectMeta{Namespace: "ns", Name: "j", UID: m.uid(), OwnerReferences: []metav1.OwnerReference{
		{Kind: "SingletonJob", Name: "j", UID: m.job.UID, Controller: ptr.To(true)}}}, LeaseConfig(m.job, m.job.Status.TokenFloor), carry)
	m.touch(m.lease)
	return true
}

func (m *model) proveLease(a ProveLease) bool {
	if m.job == nil {
		return false
	}
	o := m.observe(nil)
	switch {
	case Knows(a.Seen, o.Job, o.Pods):
		return m.actOnLease(UpdateLease{Lease: a.Lease, Opens: a.Opens})
	case a.Seen.DeletionTimestamp == nil:
		return m.actOnLease(DeleteLease{a.Seen})
	}
	return m.actOnLease(RemoveLeaseFinalizer{a.Seen})
}

func (m *model) actOnLease(a Action) bool {
	same := func(l *coordinationv1.Lease) bool {
		return m.lease != nil && m.lease.UID == l.UID && m.lease.ResourceVersion == l.ResourceVersion
	}
	switch a := a.(type) {
	case UpdateLease:
		if !same(a.Lease) || (a.Opens && (m.job == nil || !Open(m.job))) {
			return false
		}
		m.lease = a.Lease.DeepCopy()
		m.touch(m.lease)
	case DeleteLease:
		if !same(a.Lease) {
			return false
		}
		m.lease.DeletionTimestamp = ptr.To(metav1.NewTime(m.now))
		m.touch(m.lease)
	case RemoveLeaseFinalizer:
		if !same(a.Lease) {
			return false
		}
		m.lease = nil
	}
	return true
}

func (m *model) createPod(w *work, c CreatePod) bool {
	name := PodName(m.job, c.Ordinal)
	if m.pods[name] != nil {
		return false
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: m.uid(), Finalizers: []string{v1alpha1.FinalizerOutcome},
		Annotations: map[string]string{v1alpha1.AnnotationRevision: m.revision},
	}}
	if c.Gated {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.SchedulingGate}}
	}
	p.Spec.Containers = []corev1.Container{{Name: "app"}}
	p.Spec.RestartPolicy = RestartPolicy(m.job)
	m.pods[name] = p
	m.touch(p)
	return true
}

func (m *model) deletePod(p *corev1.Pod) {
	if p.DeletionTimestamp == nil {
		p.DeletionTimestamp = ptr.To(metav1.NewTime(m.now))
		m.touch(p)
	}
	m.vanish(p)
}

// vanish removes a pod that is being deleted, once no kubelet and no finalizer
// keeps it.
func (m *model) vanish(p *corev1.Pod) {
	ended := p.Spec.NodeName == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	if p.DeletionTimestamp != nil && len(p.Finalizers) == 0 && ended {
		delete(m.pods, p.Name)
	}
}

func (m *model) uid() types.UID {
	m.uids++
	return types.UID(fmt.Sprintf("u%d", m.uids))
}
