// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"leasehold.dev/api/v1alpha1"
)

// Work that checkpoints on SIGTERM and exits 0 has not succeeded; work whose
// success the Lease could not take in has.
func TestStoppedWorkIsNotASuccess(t *testing.T) {
	t.Parallel()
	done := tokenPod("j-3", "12")
	done.Status.Phase = corev1.PodSucceeded
	for reason, want := range map[v1alpha1.Outcome]bool{
		v1alpha1.OutcomeStopped: false,
		v1alpha1.OutcomeLapsed:  true,
		v1alpha1.OutcomeUnknown: true,
	} {
		history := []v1alpha1.TermStatus{{Token: 12, Pod: "j-3", UID: done.UID, Reason: string(reason)}}
		if got := succeededUnreported(history, []*corev1.Pod{done}); got != want {
			t.Errorf("outcome %s: success %t, want %t", reason, got, want)
		}
	}
	if !succeededUnreported(nil, []*corev1.Pod{done}) {
		t.Error("a success without a recorded outcome is not seen")
	}
	earlier := []v1alpha1.TermStatus{{Token: 11, Pod: "j-3", UID: done.UID, Reason: string(v1alpha1.OutcomeStopped)}}
	if !succeededUnreported(earlier, []*corev1.Pod{done}) {
		t.Error("an earlier stop hides a later success")
	}
}
