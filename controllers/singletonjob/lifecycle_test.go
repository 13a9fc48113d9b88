// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package singletonjob

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

func TestForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	w.settle()
	w.wantPods("work-0")
	w.wantCondition(v1alpha1.ConditionHeld, "False/NeverGranted")
	if r := w.record(); r.Closed != "" || r.Phase() != lease.Free || r.Config.TokenFloor != 0 || r.Config.CandidateOwner != string(w.job().UID) {
		t.Errorf("lease is %+v", r)
	}
	for _, object := range []client.Object{&rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		if !w.exists(object, "leasehold-work") {
			t.Errorf("%T is missing", object)
		}
	}

	w.grant("work-0")
	w.settle()
	w.wantCondition(v1alpha1.ConditionHeld, "False/Granted")
	w.run("work-0")
	w.confirm()
	w.settle()
	w.wantCondition(v1alpha1.ConditionHeld, "True/Live")
	h := w.job().Status.Holder
	if h == nil || h.Pod != "work-0" || h.Node != "node-1" || !h.Started || h.Token != w.record().Token || h.AcquireTime.IsZero() {
		t.Errorf("holder is %+v", h)
	}

	// A drain: the successor is there before the holder has gone.
	w.must(api.Delete(t.Context(), w.pod("work-0")))
	w.settle()
	w.wantPods("-work-0", "work-1")
	if got := w.job().Status.ActiveOrdinals; !slices.Equal(got, []int32{0, 1}) {
		t.Errorf("active ordinals are %v", got)
	}
	w.release(v1alpha1.OutcomeStopped)
	w.settle()
	w.wantHistory("work-0 Stopped")
	if pod := w.pod("work-0"); len(pod.Finalizers) != 0 {
		t.Errorf("finalizers are still %v", pod.Finalizers)
	}
	w.reap("work-0")
	w.settle()
	w.wantPods("work-1")
	w.wantCondition(v1alpha1.ConditionHeld, "False/Ended")

	want := []string{"Granted", "Held", "TermEnded"}
	if got := w.told(); !slices.Equal(got, want) {
		t.Errorf("events are %v, want %v", got, want)
	}
}

func TestRenewalsWriteNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	w.settle()
	w.hold("work-0")
	before := len(w.writes)
	for range 5 {
		w.clock.SetTime(w.clock.Now().Add(5 * time.Second))
		w.confirm() // With the same nonce this renews.
		w.settle()
	}
	if len(w.writes) != before {
		t.Errorf("wrote %v", w.writes[before:])
	}
}

func TestNeverSucceeds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(toCompletion(corev1.RestartPolicyNever))
	w.settle()
	w.hold("work-0")
	w.release(v1alpha1.OutcomeSucceeded)
	w.settle()
	w.wantCondition(v1alpha1.ConditionComplete, "True/Succeeded")
	w.wantPods("work-0") // It is about to end by itself.
	w.end("work-0", 0)
	w.settle()
	w.wantPods("work-0")
	if pod := w.pod("work-0"); len(pod.Finalizers) != 0 {
		t.Errorf("finalizers are still %v", pod.Finalizers)
	}
	w.wantHistory("work-0 Succeeded")
	if got := w.job().Status.ActiveOrdinals; len(got) != 0 {
		t.Errorf("active ordinals are %v", got)
	}
	if got, want := w.told(), []string{"Granted", "Held", "TermEnded", "Completed"}; !slices.Equal(got, want) {
		// Granted and confirmed in one look, Granted is not told.
		if want = want[1:]; !slices.Equal(got, want) {
			t.Errorf("events are %v, want %v", got, want)
		}
	}
}

func TestCompletedIsNeverMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(toCompletion(corev1.RestartPolicyNever))
	w.settle()
	w.hold("work-0")
	w.release(v1alpha1.OutcomeSucceeded)
	w.end("work-0", 0)
	w.settle()

	w.must(api.Delete(t.Context(), w.pod("work-0")))
	w.must(api.Delete(t.Context(), w.lease()))
	w.settle()
	w.wantPods()
	if w.exists(&coordinationv1.Lease{}, w.name) {
		t.Error("the lease is there")
	}
	w.wantCondition(v1alpha1.ConditionComplete, "True/Succeeded")
	w.edit(func(job *v1alpha1.SingletonJob) { job.Spec.Template.Spec.Containers[0].Image = "example.com/app:2" })
	w.settle()
	w.wantPods()
}

// The Lease vanishes, with its finalizer, together with the word Completed that
// was written on it. The pod still shows the success.
func TestCompletionSurvivesTheLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(toCompletion(corev1.RestartPolicyOnFailure))
	w.settle()
	w.hold("work-0")
	w.release(v1alpha1.OutcomeSucceeded)
	w.end("work-0", 0)
	w.loseLease()
	w.settle()
	w.wantCondition(v1alpha1.ConditionComplete, "True/Succeeded")
	w.wantPods("work-0")
	w.wantHistory("work-0 Succeeded")
	if w.exists(&coordinationv1.Lease{}, w.name) {
		t.Error("a lease was made for completed work")
	}
}

// loseLease removes the Lease with its finalizer.
func (w *world) loseLease() {
	w.Helper()
	l := w.lease()
	l.Finalizers = nil
	w.must(api.Update(w.Context(), l))
	w.must(api.Delete(w.Context(), l))
}

func TestNeverFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(func(job *v1alpha1.SingletonJob) {
		toCompletion(corev1.RestartPolicyNever)(job)
		job.Spec.BackoffLimit = ptr.To[int32](2)
	})
	w.settle()
	for i, pause := range []time.Duration{10 * time.Second, 20 * time.Second} {
		name := "work-" + string(rune('0'+i))
		w.hold(name)
		w.release(v1alpha1.OutcomeFailed)
		w.end(name, 1)
		result := w.settle()
		w.wantPods(name) // The logs of the last are kept; no other yet.
		if result.RequeueAfter != pause {
			t.Errorf("after run %d the pause is %s, want %s", i, result.RequeueAfter, pause)
		}
		w.clock.SetTime(w.clock.Now().Add(pause - time.Nanosecond))
		w.settle()
		w.wantPods(name)
		w.clock.SetTime(w.clock.Now().Add(time.Nanosecond))
		w.settle()
	}
	w.hold("work-2")
	w.release(v1alpha1.OutcomeFailed)
	w.end("work-2", 1)
	w.settle()
	w.clock.SetTime(w.clock.Now().Add(time.Hour))
	w.settle()
	w.wantPods("work-2")
	w.wantCondition(v1alpha1.ConditionFailed, "True/BackoffLimitExceeded")
	w.wantHistory("work-2 Failed, work-1 Failed, work-0 Failed")
	if r := w.record(); r.Closed != v1alpha1.ClosedFailed {
		t.Errorf("lease is closed %q", r.Closed)
	}
	if got := w.job().Status.Failed; got != 3 {
		t.Errorf("failed %d times", got)
	}
}

func TestOnFailureCountsTerms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(func(job *v1alpha1.SingletonJob) {
		toCompletion(corev1.RestartPolicyOnFailure)(job)
		job.Spec.BackoffLimit = ptr.To[int32](1)
	})
	w.settle()
	w.hold("work-0")
	w.release(v1alpha1.OutcomeFailed)
	w.settle()
	w.restart("work-0", 1)
	w.settle()
	w.wantCondition(v1alpha1.ConditionFailed, "False/NotFinished")
	w.wantPods("work-0")
	w.hold("work-0")
	w.release(v1alpha1.OutcomeFailed)
	w.settle()
	w.wantCondition(v1alpha1.ConditionFailed, "True/BackoffLimitExceeded")
	if got := w.job().Status.Failed; got != 2 {
		t.Errorf("failed %d times", got)
	}
	w.reap("work-0")
	w.settle()
	w.wantPods()
	w.wantCondition(v1alpha1.ConditionHeld, "False/Failed")
}

func (w *world) restart(name string, count int32) {
	w.Helper()
	pod := w.pod(name)
	pod.Status.ContainerStatuses[0].RestartCount = count
	w.must(api.Status().Update(w.Context(), pod))
}

func TestSuspend(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	w.settle()
	w.hold("work-0")
	w.edit(func(job *v1alpha1.SingletonJob) { job.Spec.Suspend = ptr.To(true) })
	w.settle()
	w.wantPods("work-0")
	w.wantCondition(v1alpha1.ConditionSuspended, "False/Stopping")
	if r := w.record(); r.Closed != v1alpha1.ClosedSuspended || r.EndRequested != r.Token {
		t.Errorf("lease is %+v", r)
	}
	w.release(v1alpha1.OutcomeStopped)
	w.settle()
	w.wantPods("-work-0")
	w.wantCondition(v1alpha1.ConditionSuspended, "True/Suspended")
	w.reap("work-0")
	w.settle()
	w.wantPods()

	w.edit(func(job *v1alpha1.SingletonJob) { job.Spec.Suspend = nil })
	w.settle()
	w.wantPods("work-1")
	if r := w.record(); r.Closed != "" {
		t.Errorf("lease is closed %q", r.Closed)
	}
	w.grant("work-1")
}

func TestKubeletRenews(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(func(job *v1alpha1.SingletonJob) { job.Spec.Lease.RenewedBy = v1alpha1.RenewedByKubelet })
	w.settle()
	if w.exists(&rbacv1.Role{}, "leasehold-work") {
		t.Error("pods that do not speak to the API have a Role")
	}
	w.grant("work-0")
	w.confirmFor("work-0")
	w.run("work-0")
	w.settle()
	w.wantCondition(v1alpha1.ConditionHeld, "True/Live")
	w.edit(func(job *v1alpha1.SingletonJob) { job.Spec.Suspend = ptr.To(true) })
	w.settle()
	w.wantPods("-work-0") // Nobody in the pod would read a request.
}

func TestStandbysAndRollOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(func(job *v1alpha1.SingletonJob) { job.Spec.Standbys = 1 })
	w.settle()
	w.wantPods("work-0", "work-1")
	for _, name := range []string{"work-0", "work-1"} {
		if gates := w.pod(name).Spec.SchedulingGates; len(gates) != 0 {
			t.Errorf("a standby cannot run: %v", gates)
		}
		w.run(name)
	}
	w.hold("work-1")
	if got := w.job().Status.Standbys; got != 1 {
		t.Errorf("%d standbys", got)
	}

	w.edit(func(job *v1alpha1.SingletonJob) { job.Spec.Template.Spec.Containers[0].Image = "example.com/app:2" })
	w.settle()
	w.wantPods("-work-0", "work-1", "work-2")
	w.reap("work-0")
	w.run("work-2")
	w.settle()
	w.wantPods("-work-1", "work-2", "work-3") // The new standby runs: now the holder.
	w.release(v1alpha1.OutcomeStopped)
	w.settle()
	w.reap("work-1")
	w.hold("work-2")
	w.wantPods("work-2", "work-3")

	w.edit(func(job *v1alpha1.SingletonJob) { job.Spec.Standbys = 0 })
	w.settle()
	w.wantPods("work-2")
}

func TestRollOutWithoutStandbys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create(nil)
	w.settle()
	w.hold("work-0")
	w.edit(func(job *v1alpha1.SingletonJob) { job.Spec.Template.Spec.Containers[0].Image = "example.com/app:2" })
	w.settle()
	w.wantPods("-work-0", "work-1")
	if got := w.pod("work-1").Spec.Containers[0].Image; got != "example.com/app:2" {
		t.Errorf("image is %s", got)
	}
	// An option of the lease is no reason to restart anything.
	w.edit(func(job *v1alpha1.SingletonJob) { job.Spec.Lease.DurationSeconds = 30 })
	w.settle()
	w.wantPods("-work-0", "work-1")
	if r := w.record(); r.Config.Duration != 30*time.Second || r.Duration != 15*time.Second {
		t.Errorf("next duration is %s, this term's %s", r.Config.Duration, r.Duration)
	}
}

func TestEndsAndPodsAreCounted(t *testing.T) {
	t.Parallel()
	read := func(c prometheus.Counter) float64 {
		var m dto.Metric
		if err := c.Write(&m); err != nil {
			t.Fatal(err)
		}
		return m.GetCounter().GetValue()
	}
	ends, pods := read(termsEnded.WithLabelValues("Other")), read(podsCreated)
	w := newWorld(t)
	w.create(nil)
	w.settle()
	if got := read(podsCreated); got <= pods {
		t.Errorf("%v pods, were %v", got, pods)
	}
	w.hold("work-0")
	w.release("made up by the holder")
	w.settle()
	if got := read(termsEnded.WithLabelValues("Other")); got != ends+1 {
		t.Errorf("%v ends, were %v", got, ends)
	}
}
