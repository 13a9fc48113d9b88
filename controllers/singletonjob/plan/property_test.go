// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

func cmpStatus(a, b v1alpha1.SingletonJobStatus) bool { return equality.Semantic.DeepEqual(a, b) }

// A job may go through anything, under managers that are stale and crash: every
// plan keeps to its rules, tokens rise over all Leases, completed work is never
// granted again, and left in peace all comes to rest with the right pods.
func TestAnything(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"manage":       func(t *rapid.T) { m.T = t; m.manage() },
			"manage stale": func(t *rapid.T) { m.T = t; m.manageStale() },
			"resume":       func(t *rapid.T) { m.T = t; m.resume() },
			"remember":     func(t *rapid.T) { m.T = t; m.remember() },
			"grant":        func(t *rapid.T) { m.T = t; m.grant() },
			"stamp":        func(t *rapid.T) { m.T = t; m.stamp() },
			"confirm":      func(t *rapid.T) { m.T = t; m.confirm() },
			"release":      func(t *rapid.T) { m.T = t; m.release() },
			"end term":     func(t *rapid.T) { m.T = t; m.endTerm() },
			"pod":          func(t *rapid.T) { m.T = t; m.changePod() },
			"user":         func(t *rapid.T) { m.T = t; m.user() },
			"time": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 400).Draw(t, "seconds")) * time.Second)
			},
		})
		m.T = t
		m.comeToRest()
	})
}

// manage looks, plans and writes, as far as it gets.
func (m *model) manage() {
	if m.job == nil {
		return
	}
	m.carryOut(m.decide(m.observe(nil)))
}

func (m *model) carryOut(w *work) {
	for range rapid.IntRange(0, 12).Draw(m.T, "writes before the crash") {
		if !m.write(w) {
			return
		}
	}
	m.pending = append(m.pending, w) // A write may still arrive much later.
}

func (m *model) remember() {
	if m.job != nil {
		o := m.observe(nil)
		m.views = append(m.views, o)
	}
}

func (m *model) manageStale() {
	if len(m.views) > 0 {
		view := rapid.SampledFrom(m.views).Draw(m.T, "view")
		m.carryOut(m.decide(m.observe(&view)))
	}
}

func (m *model) resume() {
	if len(m.pending) > 0 {
		i := rapid.IntRange(0, len(m.pending)-1).Draw(m.T, "pending")
		m.write(m.pending[i])
	}
}

// somePod draws a pod; nil: there is none.
func (m *model) somePod() *corev1.Pod {
	names := m.podNames()
	if len(names) == 0 {
		return nil
	}
	return m.pods[rapid.SampledFrom(names).Draw(m.T, "pod")]
}

func (m *model) put(l *coordinationv1.Lease, err error) bool {
	if err != nil {
		return false
	}
	m.lease = l
	m.touch(l)
	return true
}

func (m *model) lapsedLease() lease.Observation {
	return lease.Observation{Lease: m.lease, Age: time.Hour}
}

func (m *model) grant() {
	p := m.somePod()
	if p == nil || m.lease == nil || p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return
	}
	l, err := m.lapsedLease().Grant(lease.Holder(p.Name, string(p.UID)), "c/ns/j", lease.Basis{Kind: lease.ByLapse}, m.now)
	if errors.Is(err, lease.ErrNotRecorded) || !m.put(l, err) {
		return
	}
	r, err := lease.Parse(l)
	if err != nil || r.Token <= m.lastToken {
		m.Fatalf("token %d was granted after %d: %v", r.Token, m.lastToken, err)
	}
	if m.finished {
		m.Fatalf("work that is over, on record, was granted again")
	}
	if r.Longest < m.longest {
		m.Fatalf("a term is waited for %s, and one was granted for %s", r.Longest, m.longest)
	}
	m.longest = max(m.longest, r.Duration)
	m.lastToken, m.working = r.Token, ""
}

// holder is the pod that the newest grant names.
func (m *model) holder() *corev1.Pod {
	if m.lease != nil {
		for _, p := range m.pods {
			if m.lease.Annotations[v1alpha1.AnnotationHolder] == lease.Holder(p.Name, string(p.UID)) {
				return p
			}
		}
	}
	return nil
}

func (m *model) stamp() {
	p := m.holder()
	if p == nil || p.DeletionTimestamp != nil || m.lease.Annotations[v1alpha1.AnnotationReleasedToken] == m.lease.Annotations[v1alpha1.AnnotationToken] {
		return
	}
	p.Annotations[v1alpha1.AnnotationToken] = m.lease.Annotations[v1alpha1.AnnotationToken]
	p.Spec.SchedulingGates = nil
	m.touch(p)
}

func (m *model) record() lease.Record {
	r, err := lease.Parse(m.lease)
	if err != nil {
		m.Fatalf("the Lease cannot be understood: %v", err)
	}
	return r
}

// confirm is the agent's. Its pod runs then, and carries the token.
func (m *model) confirm() {
	p := m.holder()
	if p == nil || len(p.Spec.SchedulingGates) > 0 {
		return
	}
	r := m.record()
	if m.put(lease.Observation{Lease: m.lease}.Confirm(lease.Start{Holder: r.GrantHolder, Token: r.Token, Nonce: nonce}, m.now)) {
		m.stamp()
		m.working = r.GrantHolder
		runs(p)
		m.touch(p)
	}
}

func (m *model) release() {
	if m.lease == nil {
		return
	}
	outcome := rapid.SampledFrom([]v1alpha1.Outcome{v1alpha1.OutcomeSucceeded, v1alpha1.OutcomeFailed, v1alpha1.OutcomeStopped, v1alpha1.OutcomeRestarted}).Draw(m.T, "outcome")
	r := m.record()
	if r.Phase() == lease.Live {
		m.working = ""
		m.put(lease.Observation{Lease: m.lease}.Release(lease.Start{Holder: r.GrantHolder, Token: r.Token, Nonce: r.Started}, outcome))
	}
}

func (m *model) endTerm() {
	if m.lease == nil {
		return
	}
	if p := m.holder(); p != nil && m.record().Open() && rapid.Bool().Draw(m.T, "mark") {
		p.Annotations[v1alpha1.AnnotationEndedToken] = m.lease.Annotations[v1alpha1.AnnotationToken]
		m.touch(p)
	}
	m.working = ""
	if m.record().Phase() == lease.Granted {
		m.put(lease.Observation{Lease: m.lease}.Withdraw())
	} else {
		m.put(m.lapsedLease().End(lease.Basis{Kind: lease.ByLapse}))
	}
}

func (m *model) changePod() {
	p := m.somePod()
	if p == nil {
		return
	}
	gated := len(p.Spec.SchedulingGates) > 0
	over := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	switch rapid.SampledFrom([]string{"run", "end", "restart", "delete", "strip"}).Draw(m.T, "change") {
	case "run":
		if !gated && !over {
			runs(p)
		}
	case "end":
		if !gated && !over && p.Status.Phase == corev1.PodRunning {
			ends(int32(rapid.IntRange(m.leastCode(p), 2).Draw(m.T, "code")))(p)
		}
	case "restart":
		if p.Status.Phase == corev1.PodRunning {
			p.Status.ContainerStatuses[0].RestartCount++
		}
	case "delete":
		m.deletePod(p)
	case "strip":
		p.Finalizers = nil // A person's doing.
	}
	m.touch(p)
	m.vanish(p)
}

// leastCode: a pod succeeds only after its success was released, or after its
// term was ended from outside.
func (m *model) leastCode(p *corev1.Pod) int {
	if tokenOf(p) == 0 || (m.lease != nil && m.record().Open() && m.record().GrantHolder == lease.Holder(p.Name, string(p.UID))) {
		return 1
	}
	return 0
}

func (m *model) user() {
	if m.job == nil {
		return
	}
	what := rapid.SampledFrom([]string{"suspend", "template", "delete lease", "lose lease", "standbys", "duration", "delete", "", "", ""}).Draw(m.T, "what")
	switch what {
	case "suspend":
		m.job.Spec.Suspend = ptr.To(!suspended(m.job))
	case "template":
		m.revision += "x"
	case "duration":
		m.job.Spec.Lease.DurationSeconds = rapid.SampledFrom([]int32{0, 10, 60}).Draw(m.T, "duration")
	case "standbys":
		m.job.Spec.Standbys = (m.job.Spec.Standbys + 1) % 3
	case "delete lease":
		if m.lease != nil && m.lease.DeletionTimestamp == nil {
			m.lease.DeletionTimestamp = ptr.To(metav1.NewTime(m.now))
			m.touch(m.lease)
		}
	case "lose lease":
		m.lease = nil
	case "delete":
		m.job.DeletionTimestamp = ptr.To(metav1.NewTime(m.now))
		if len(m.job.Finalizers) == 0 {
			m.job, m.pods, m.lease = nil, map[string]*corev1.Pod{}, nil
			return
		}
	}
	m.touch(m.job)
}

// comeToRest lets a fresh manager work alone, while terms end and pods that are
// deleted go, until it has nothing to write.
func (m *model) comeToRest() {
	for range 200 {
		if m.job == nil {
			return
		}
		o := m.observe(nil)
		w := m.decide(o)
		if cmpStatus(o.Job.Status, w.plan.Status) && len(w.plan.Actions) == 0 {
			if w.plan.RequeueAfter > 0 {
				m.now = m.now.Add(w.plan.RequeueAfter)
				continue
			}
			if !m.help() {
				m.checkRest()
				return
			}
			continue
		}
		for m.write(w) {
			continue
		}
	}
	m.Fatalf("does not come to rest")
}

// help does what others do about a pod that must end or has ended.
func (m *model) help() bool {
	if m.lease != nil {
		r, p := m.record(), m.holder()
		asked := r.EndRequested == r.Token && r.Phase() == lease.Live
		if r.Open() && (p == nil || p.DeletionTimestamp != nil || asked || r.Phase() == lease.Disputed ||
			p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded || r.Closed != "") {
			m.working = ""
			if r.Phase() == lease.Granted {
				return m.put(lease.Observation{Lease: m.lease}.Withdraw())
			}
			return m.put(m.lapsedLease().End(lease.Basis{Kind: lease.ByLapse}))
		}
	}
	for _, name := range m.podNames() {
		p := m.pods[name]
		if p.DeletionTimestamp == nil {
			continue
		}
		if p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded && p.Spec.NodeName != "" {
			ends(1)(p)
			m.touch(p)
			m.vanish(p)
			return true
		}
	}
	return false
}

// checkRest checks what must be true when there is nothing left to do.
func (m *model) checkRest() {
	if m.job.DeletionTimestamp != nil {
		m.Fatalf("the deleted job stays: %+v", m.job.Status)
	}
	alive := 0
	for _, p := range m.pods {
		switch {
		case p.DeletionTimestamp != nil:
			m.Fatalf("pod %s stays, deleted", p.Name)
		case p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded:
			alive++
		}
	}
	want := 1 + int(m.job.Spec.Standbys)
	finishing := 0
	if !Open(m.job) {
		want = 0
	}
	if r := m.lease; Finished(m.job) && r != nil && r.Annotations[v1alpha1.AnnotationOutcome] == string(v1alpha1.OutcomeSucceeded) {
		finishing = 1 // The pod that succeeded ends by itself.
	}
	if alive < want || alive > want+finishing {
		m.Fatalf("%d pods live, want %d: %v, %+v", alive, want, m.podNames(), m.job.Status)
	}
	if !Finished(m.job) && (m.lease == nil || (Open(m.job) && m.record().Closed != "")) {
		m.Fatalf("the lease is missing or closed")
	}
}
