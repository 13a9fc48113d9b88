// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestOnlyARequestForNoGraceIsAForceDelete(t *testing.T) {
	t.Parallel()
	grace := func(seconds int64) podEdit {
		return func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = ptr.To(seconds) }
	}
	own := func(seconds int64) podEdit {
		return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To(seconds) }
	}
	disrupted := func(reason string) podEdit {
		return func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions,
				corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason})
		}
	}
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"a deletion without grace":                     {pod("a", deleting, grace(0), own(30)), true},
		"an ordinary deletion":                         {pod("a", deleting, grace(30), own(30)), false},
		"no deletion":                                  {pod("a", own(30)), false},
		"an ordinary deletion of a pod without grace":  {pod("a", deleting, grace(0), own(0)), false},
		"garbage collection, since the Node is gone":   {pod("a", deleting, grace(0), own(30), disrupted("DeletionByPodGC")), false},
		"a force delete of a pod that was evicted too": {pod("a", deleting, grace(0), own(30), disrupted("EvictionByEvictionAPI")), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := ForceDeleted(tc.pod); got != tc.want {
				t.Errorf("force-deleted: %t, want %t", got, tc.want)
			}
		})
	}
}
