// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/test/e2e/evidence"
)

const (
	// handOver is how long the next grant may take once the last holder is
	// proven to have ended.
	handOver = 2 * time.Second
	// restartInPlace is how long a kubelet takes to notice the end of a container
	// and to start it again the first time, when there is no back-off yet.
	restartInPlace = 2 * time.Second
)

// testKill: whatever kills the work, the lease is held again at once, with a
// greater token and without an overlap, under every policy.
func testKill(t *testing.T) {
	for _, policy := range []v1alpha1.OverlapPolicy{v1alpha1.OverlapFence, v1alpha1.OverlapForbid, v1alpha1.OverlapTolerate} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			const name = "victim"
			// 15 s: whoever waited for a lapse would be seen to.
			w.create(name, duration(15), overlap(policy), probe("-child"))
			s := w.working(name, 0, time.Minute)
			s = w.replaced(name, s, "kill of the command", func(pod string) { w.killWork(pod, s.PID) })
			s = w.replaced(name, s, "force delete of the pod", func(pod string) { w.deletePod(pod, client.GracePeriodSeconds(0)) })
			s = w.replaced(name, s, "kill of the agent, and so of the container", func(pod string) {
				if err := w.Cluster.Kill(t.Context(), w.ns, pod, "probe", syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			})
			w.replaced(name, s, "delete of the pod", func(pod string) { w.deletePod(pod) })
		})
	}
}

// replaced does something to the holder and waits for new work.
func (w *world) replaced(job string, old evidence.Start, what string, do func(pod string)) evidence.Start {
	w.Helper()
	pod, _ := podOf(old.Holder)
	began := time.Now()
	do(pod)
	s := w.working(job, old.Token, 60*time.Second)
	last := w.start(job, old.Boot).Last
	w.measured(what+": last sign of life to next", s.At.Sub(last))
	w.within(latency*(handOver+restartInPlace), what+" to next work", s.At.Sub(began))
	w.held(job, old.Token, 10*time.Second)
	return s
}

func podOf(holder string) (name, uid string) {
	for i := range holder {
		if holder[i] == '_' {
			return holder[:i], holder[i+1:]
		}
	}
	return holder, ""
}

// killWork kills the command by its number within the container. What is
// executed there may be swept away together with it, so its status says nothing.
func (w *world) killWork(pod string, pid int) {
	w.Helper()
	out, err := w.Kubectl(w.Context(), "-n", w.ns, "exec", pod, "-c", "probe", "--", "/probe", "signal", fmt.Sprint(pid), "KILL")
	if err != nil {
		w.Logf("kill of process %d in %s: %v %s", pid, pod, err, out)
	}
}

func (w *world) deletePod(pod string, options ...client.DeleteOption) {
	w.Helper()
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: pod}}
	if err := w.Client.Delete(w.Context(), object, options...); err != nil {
		w.Fatal(err)
	}
}

// testStubbornWork: work that pays no heed to SIGTERM is killed, and the job
// can be deleted.
func testStubbornWork(t *testing.T) {
	w := newWorld(t)
	const name = "stubborn"
	job := w.create(name, probe("-ignore-term", "-child"))
	old := w.working(name, 0, time.Minute)
	pod, _ := podOf(old.Holder)
	began := time.Now()
	w.deletePod(pod)
	s := w.working(name, old.Token, time.Minute)
	// It is killed when the 5 s of grace are over.
	w.within(5*time.Second+latency*handOver, "delete of a pod with stubborn work to next work", s.At.Sub(began))
	if err := w.Client.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	w.gone(30*time.Second, job)
}
