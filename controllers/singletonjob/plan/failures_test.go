// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// outlived ends the pod's open term as its next start in place does.
func (s *scene) outlived() *scene {
	return s.step(func(o lease.Observation) (*coordinationv1.Lease, error) {
		next, err := lease.ParseNonce("app.boot-2.y")
		if err != nil {
			return nil, err
		}
		return o.ReleaseOutlived(s.start(), next)
	})
}

func disrupts(p *corev1.Pod) {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue})
}

func held(p corev1.RestartPolicy) *scene {
	return newScene(policy(p), active(0)).withLease().withPod(0).granted(0).confirmed()
}

func withdrawn(p corev1.RestartPolicy) *scene {
	return newScene(policy(p), active(0)).withLease().withPod(0).granted(0).
		step(func(o lease.Observation) (*coordinationv1.Lease, error) { return o.Withdraw() })
}

func byKubelet(p corev1.RestartPolicy) *scene {
	return newScene(policy(p), active(0), kubelet).withLease().withPod(0).granted(0)
}

func TestFailedRuns(t *testing.T) {
	t.Parallel()
	const failed = v1alpha1.OutcomeFailed
	for name, tc := range map[string]struct {
		scene *scene
		want  int32
	}{
		"it said so":                         {held(never).released(failed).pod(0, ends(1)), 1},
		"it said so, and is gone":            {held(never).released(failed).pod(0, goes), 1},
		"it was stopped":                     {held(never).released(v1alpha1.OutcomeStopped).pod(0, ends(1)), 0},
		"it lost its lease":                  {held(never).lapsed().pod(0, ends(1)), 0},
		"it never began":                     {newScene(policy(never), active(0)).withLease().withPod(0, ends(1)), 1},
		"it never began: deleted":            {newScene(policy(never), active(0)).withLease().withPod(0, ends(1), goes), 0},
		"it was disrupted":                   {newScene(policy(never), active(0)).withLease().withPod(0, ends(1), disrupts), 0},
		"it was deleted":                     {newScene(policy(never), active(0)).withLease().withPod(0, goes), 0},
		"it is dead":                         {held(never).died().pod(0, ends(1)), 1},
		"its lease was lost, and it is dead": {held(never).died().pod(0, ends(75)), 0},
		"it never learned of a lease":        {newScene(policy(never), active(0)).withLease().withPod(0, ends(69)), 0},
		"it was withdrawn, since it failed":  {withdrawn(never).pod(0, ends(1), goes), 1},
		"it was withdrawn, since it failed again and again": {withdrawn(onFailure).pod(0, runs, restarted(5), goes), 1},
		"it was withdrawn without having begun":             {withdrawn(onFailure).pod(0, runs, goes), 0},

		"it said so, and goes on":                   {held(onFailure).released(failed).pod(0, runs, restarted(1), endedBefore(1)), 1},
		"it said so, and goes on to 75":             {held(onFailure).released(failed).pod(0, runs, restarted(1), endedBefore(75)), 1},
		"it said so, went on, and goes":             {held(onFailure).released(failed).pod(0, runs, restarted(1), goes), 1},
		"it said so, and goes before it went on":    {held(onFailure).released(failed).pod(0, ends(1), goes), 1},
		"it said so, went on, and has ended":        {held(onFailure).released(failed).pod(0, ends(143), restarted(1), goes), 1},
		"it crashed, and went on":                   {held(onFailure).outlived().pod(0, runs, restarted(1), endedBefore(137)), 1},
		"it lost its lease, and went on":            {held(onFailure).outlived().pod(0, runs, restarted(1), endedBefore(75)), 0},
		"it went on; how it ended is not known yet": {held(onFailure).outlived().pod(0, runs), 0},
		"it crashed, and is proven dead":            {held(onFailure).died().pod(0, runs, restarted(1), endedBefore(137)), 1},
		"it waits for its lapse after a lost lease": {held(onFailure).pod(0, runs, restarted(1), endedBefore(75)), 0},
		"it waited, and restarted":                  {newScene(policy(onFailure), active(0)).withLease().withPod(0, runs, restarted(3)), 0},
		"it has stopped, waited, and restarted":     {held(onFailure).released(v1alpha1.OutcomeStopped).pod(0, runs, restarted(3), endedBefore(137)), 0},
		"it crashed, but is disrupted":              {held(onFailure).outlived().pod(0, runs, disrupts, endedBefore(137)), 0},
		"it was evicted by its kubelet":             {held(onFailure).died().pod(0, ends(137), disrupts), 0},
		"its node refused it":                       {held(onFailure).died().pod(0, ends(137), refusedByNode, goes), 1},

		"the kubelet starts it again":      {byKubelet(onFailure).pod(0, runs, restarted(2), endedBefore(1)), 2},
		"nobody's agent ended with 75":     {byKubelet(onFailure).pod(0, runs, restarted(1), endedBefore(75)), 1},
		"a pod made when it ran for ever":  {byKubelet(corev1.RestartPolicyAlways).job(policy(onFailure)).pod(0, runs, restarted(9)), 0},
		"what runs for ever does not fail": {held(corev1.RestartPolicyAlways).released(failed).pod(0, runs, restarted(9)), 0},
	} {
		got := Decide(tc.scene.Observed).Status
		wantEqual(t, name, got.Failed, tc.want)
		wantEqual(t, name+": time", got.LastFailureTime.IsZero(), tc.want == 0)
	}
}

// A run is counted with the write that puts its term on record, and by none after
// it, whatever is seen of its container.
func TestTermsAreCountedOnce(t *testing.T) {
	t.Parallel()
	s := held(onFailure).pod(0, runs).seen()
	fails := func(restarts, want int32) {
		t.Helper()
		s.released(v1alpha1.OutcomeFailed).seen()
		s.pod(0, restarted(restarts), endedBefore(1)).seen()
		wantEqual(t, "failed", s.Job.Status.Failed, want)
		s.granted(0).confirmed().seen()
		wantEqual(t, "failed, and granted again", s.Job.Status.Failed, want)
	}
	fails(1, 1)
	fails(2, 2)
	// A lease is lost after a failure; the restart is seen before the lapse.
	s.pod(0, restarted(3), endedBefore(75)).seen()
	s.lapsed().seen()
	wantEqual(t, "a lost lease", s.Job.Status.Failed, 2)
	s.granted(0).confirmed().seen()
	fails(4, 3)
	s.released(v1alpha1.OutcomeStopped).pod(0, goes, restarted(5), endedBefore(143)).seen()
	wantEqual(t, "after the end", s.Job.Status.Failed, 3)
}

// Where the kubelet stands for the holder, restarts are counted, once each, for
// the very pod.
func TestRestartsAreCountedOnce(t *testing.T) {
	t.Parallel()
	s := byKubelet(onFailure)
	for _, step := range []struct{ restarts, want int32 }{{0, 0}, {1, 1}, {1, 1}, {3, 3}, {2, 3}, {3, 3}} {
		s.pod(0, runs, restarted(step.restarts)).seen()
		wantEqual(t, "failed", s.Job.Status.Failed, step.want)
	}
	wantEqual(t, "restarts", len(s.Job.Status.Restarts), 1)
	s.at(0).UID = "another"
	s.pod(0, restarted(1)).seen()
	wantEqual(t, "another pod of the name", s.Job.Status.Failed, 4)
	s.at(0).UID = "u0"
	s.confirmed().died().pod(0, goes).seen()
	wantEqual(t, "restarts after the end", len(s.Job.Status.Restarts), 0)
}

// The job's policy was changed: its pod is still restarted by the old one.
func TestChangedRestartPolicy(t *testing.T) {
	t.Parallel()
	s := held(corev1.RestartPolicyAlways).pod(0, runs, restarted(9), endedBefore(1)).seen()
	s.job(policy(onFailure))
	wantEqual(t, "Failed", conditionOf(Decide(s.Observed).Status, v1alpha1.ConditionFailed), "False/NotFinished")
}
