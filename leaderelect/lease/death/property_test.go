// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package death

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

func drawStatus(t *rapid.T, name string) corev1.ContainerStatus {
	s := rapid.SampledFrom([]corev1.ContainerStatus{
		running(name), waiting(name), ended(name, 0, ""), ended(name, 1, ""),
		ended(name, 0, message(mine)), ended(name, 1, message(earlier)),
	}).Draw(t, name)
	if rapid.Bool().Draw(t, "ran before") {
		s = lately(s, int32(rapid.IntRange(0, 1).Draw(t, "exit")), rapid.SampledFrom([]string{"", message(mine), message(earlier)}).Draw(t, "message"))
	}
	return s
}

func drawPod(t *rapid.T) *corev1.Pod {
	p := pod(rapid.SampledFrom([]corev1.RestartPolicy{always, onFailure, never}).Draw(t, "policy"), second(corev1.Container{Name: "b"}))
	if rapid.Bool().Draw(t, "init") {
		initContainer(corev1.Container{Name: "i"})(p)
		initStatuses(drawStatus(t, "i"))(p)
	}
	statuses(drawStatus(t, "work"), drawStatus(t, "b"))(p)
	if rapid.Bool().Draw(t, "deleting") {
		deleting(p)
	}
	if reason := rapid.SampledFrom([]string{"", "PodFailed", "ContainersNotReady"}).Draw(t, "reason"); reason != "" {
		ready(corev1.ConditionFalse, reason)(p)
	}
	return p
}

// Only behind an init container that failed can a container have ended without
// a report of it.
func TestAContainerWithoutAReportedEndIsNeverDead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPod(t)
		proof := Judge(p, rapid.SampledFrom([]string{mine, ""}).Draw(t, "started"))
		for _, s := range append(p.Status.ContainerStatuses, p.Status.InitContainerStatuses...) {
			failed := len(p.Status.InitContainerStatuses) > 0 && s.Name != "i" &&
				p.Status.InitContainerStatuses[0].State.Terminated != nil && p.Status.InitContainerStatuses[0].State.Terminated.ExitCode != 0
			if s.State.Terminated == nil && s.LastTerminationState.Terminated == nil && proof.Dead && (s.State.Waiting == nil || !failed) {
				t.Fatalf("%s is not reported to have ended, and the pod is judged %+v", s.Name, proof)
			}
		}
		if proof.Succeeded && !proof.Dead {
			t.Fatalf("succeeded without being dead: %+v", proof)
		}
	})
}

func TestPhaseChangesNoVerdict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPod(t)
		want := Judge(p, mine)
		p.Status.Phase = rapid.SampledFrom([]corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded, corev1.PodRunning}).Draw(t, "phase")
		if got := Judge(p, mine); got != want {
			t.Fatalf("phase %s: %+v, without: %+v", p.Status.Phase, got, want)
		}
	})
}

func TestARunningContainerIsDeadOnlyByTheNonceOfItsEarlierEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPod(t)
		p.Status.ContainerStatuses[0] = lately(running("work"), 1, message(earlier))
		if proof := Judge(p, mine); proof.Dead {
			t.Fatalf("judged %+v", proof)
		}
	})
}
