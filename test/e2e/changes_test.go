// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1alpha1"
)

// testStandbys: a pod that runs and waits takes over without having to start.
func testStandbys(t *testing.T) {
	w := newWorld(t)
	const name = "replaced"
	w.create(name, duration(15), func(j *v1alpha1.SingletonJob) { j.Spec.Standbys = 1 })
	old := w.working(name, 0, time.Minute)
	w.job(name, time.Minute, "have a standby", func(j *v1alpha1.SingletonJob) error {
		if j.Status.Standbys != 1 {
			return fmt.Errorf("it has %d", j.Status.Standbys)
		}
		return nil
	})
	waiting := w.otherPod(old.Holder)
	pod, _ := podOf(old.Holder)
	began := time.Now()
	w.deletePod(pod)
	next := w.working(name, old.Token, time.Minute)
	w.measured("end of the holder's work to work of the standby", next.At.Sub(w.start(name, old.Boot).Last))
	w.within(latency*handOver, "delete of the holder to work of the standby", next.At.Sub(began))
	if got, _ := podOf(next.Holder); got != waiting {
		t.Errorf("pod %s took over, want the standby %s", got, waiting)
	}
}

// otherPod is the one pod of the namespace that is not this holder.
func (w *world) otherPod(holder string) string {
	w.Helper()
	var pods corev1.PodList
	if err := w.Client.List(w.Context(), &pods, client.InNamespace(w.ns)); err != nil {
		w.Fatal(err)
	}
	pod, _ := podOf(holder)
	for _, p := range pods.Items {
		if p.Name != pod {
			return p.Name
		}
	}
	w.Fatalf("there is no pod but %s", pod)
	return ""
}

// testRollOut: a new template replaces the holder, in order and with a greater
// token.
func testRollOut(t *testing.T) {
	for _, policy := range []v1alpha1.OverlapPolicy{v1alpha1.OverlapFence, v1alpha1.OverlapForbid, v1alpha1.OverlapTolerate} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			const name = "rolled"
			w.create(name, duration(15), overlap(policy))
			old := w.working(name, 0, time.Minute)
			began := time.Now()
			w.change(name, func(j *v1alpha1.SingletonJob) {
				env := &j.Spec.Template.Spec.Containers[0].Env
				*env = append(*env, corev1.EnvVar{Name: "VERSION", Value: "2"})
			})
			next := w.working(name, old.Token, time.Minute)
			w.within(latency*(handOver+restartInPlace), "roll-out under "+string(policy), next.At.Sub(began))
			w.podGone(old)
		})
	}
}

// testSuspend: a job that is suspended stops its work, and grants nothing until
// it is resumed.
func testSuspend(t *testing.T) {
	w := newWorld(t)
	const name = "paused"
	w.create(name, duration(15))
	old := w.working(name, 0, time.Minute)
	suspend := func(on bool) {
		w.change(name, func(j *v1alpha1.SingletonJob) { j.Spec.Suspend = ptr.To(on) })
	}
	suspend(true)
	w.condition(name, v1alpha1.ConditionSuspended, "", 20*time.Second)
	beats := w.start(name, old.Boot).Beats
	w.nothingNew(name, old.Token, 3*time.Second)
	if now := w.start(name, old.Boot).Beats; now > beats {
		t.Errorf("the work went on after the job was %s", v1alpha1.ConditionSuspended)
	}
	suspend(false)
	w.working(name, old.Token, 20*time.Second)
	w.held(name, old.Token, 10*time.Second)
}

// testMinToken: tokens start where an operator wants them to.
func testMinToken(t *testing.T) {
	w := newWorld(t)
	const name, least = "raised", int64(1) << 40
	job := w.create(name, func(j *v1alpha1.SingletonJob) { j.Spec.Lease.MinToken = least })
	s := w.working(name, 0, time.Minute)
	if s.Token < least {
		t.Errorf("token %d, want at least %d", s.Token, least)
	}
	// The Lease goes, and what remembers the tokens is the job's status.
	w.kubectl(append([]string{"-n", w.ns, "delete", "lease", name, "--wait=false"}, breakGlass...)...)
	pod, _ := podOf(s.Holder)
	w.deletePod(pod)
	next := w.working(name, s.Token, time.Minute)
	if next.Token <= s.Token {
		t.Errorf("token %d after %d", next.Token, s.Token)
	}
	if err := w.Client.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	w.gone(30*time.Second, job)
}
