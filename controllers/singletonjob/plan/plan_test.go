// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

const (
	never     = corev1.RestartPolicyNever
	onFailure = corev1.RestartPolicyOnFailure
)

func TestActions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		scene    *scene
		want     []string
		ordinals []int32
		held     string
		history  string
		events   string
		requeue  time.Duration
	}{
		"a new job gets our finalizer first": {
			scene: newScene(func(job *v1alpha1.SingletonJob) { job.Finalizers = nil }),
			want:  []string{"AddJobFinalizer"},
		},
		"a deleted job without our finalizer is let go": {
			scene: newScene(deleted, func(job *v1alpha1.SingletonJob) { job.Finalizers = nil }),
			want:  []string{},
		},
		"without a Lease there are no pods": {
			scene: newScene(), want: []string{"CreateLease"}, held: "False/NeverGranted",
		},
		"a new Lease is compared with what is known, before anything rests on it": {
			scene: newScene().withLease().closed(v1alpha1.ClosedNew),
			want:  []string{`prove lease closed="" opens=true`}, held: "False/NeverGranted",
		},
		"so is one of a suspended job": {
			scene: newScene(suspend).withLease().closed(v1alpha1.ClosedNew),
			want:  []string{`prove lease closed="Suspended" opens=false`}, held: "False/Suspended", events: "Suspended",
		},
		"an open Lease: a pod is reserved and made": {
			scene:    newScene().withLease(),
			want:     []string{"create 0 gated=true"},
			ordinals: []int32{0}, held: "False/NeverGranted",
		},
		"access comes before pods": {
			scene:    func() *scene { s := newScene().withLease(); s.Access = AccessOutdated; return s }(),
			want:     []string{"ApplyAccess", "create 0 gated=true"},
			ordinals: []int32{0}, held: "False/NeverGranted",
		},
		"a foreign role stops the pods": {
			scene:    func() *scene { s := newScene().withLease(); s.Access = AccessForeign; return s }(),
			want:     []string{},
			ordinals: []int32{0}, held: "False/NeverGranted", events: "RoleConflict", requeue: 15 * time.Second,
		},
		"a stranger keeps its name": {
			scene:    func() *scene { s := newScene(active(0)).withLease(); s.Strangers = []string{"j-0"}; return s }(),
			want:     []string{},
			ordinals: []int32{0}, held: "False/NeverGranted", events: "PodConflict", requeue: 15 * time.Second,
		},
		"standbys run": {
			scene:    newScene(standbys(2)).withLease(),
			want:     []string{"create 0 gated=false", "create 1 gated=false", "create 2 gated=false"},
			ordinals: []int32{0, 1, 2}, held: "False/NeverGranted",
		},
		"a pod whose create was lost is created": {
			scene: newScene(active(4)).withLease(), want: []string{"create 4 gated=true"},
			ordinals: []int32{4}, held: "False/NeverGranted",
		},
		"all is as it should be": {
			scene: newScene(active(0)).withLease().withPod(0).granted(0).confirmed().pod(0, runs),
			want:  []string{}, ordinals: []int32{0}, held: "True/Live", events: "Held",
		},
		"a grant waits for its pod": {
			scene: newScene(active(0)).withLease().withPod(0).granted(0),
			want:  []string{}, ordinals: []int32{0}, held: "False/Granted", events: "Granted",
		},
		"a drained holder keeps its ordinal, and has a successor": {
			scene:    newScene(active(0)).withLease().withPod(0).granted(0).confirmed().pod(0, runs).seen().pod(0, goes),
			want:     []string{"create 1 gated=true"},
			ordinals: []int32{0, 1}, held: "True/Live",
		},
		"a drained holder that released is let go": {
			scene:    newScene(active(0)).withLease().withPod(0).granted(0).confirmed().pod(0, runs).seen().pod(0, goes).released(v1alpha1.OutcomeStopped),
			want:     []string{"release j-0", "create 1 gated=true"},
			ordinals: []int32{1}, held: "False/Ended", history: "j-0:101 Stopped", events: "TermEnded",
		},
		"the holder of an open term is not let go, dead as it looks": {
			scene: newScene(policy(never), active(0)).withLease().withPod(0).granted(0).confirmed().seen().pod(0, ends(0), goes),
			want:  []string{}, ordinals: []int32{0}, held: "True/Live",
		},
		"a successor was granted in the same write": {
			scene: newScene(active(0)).withLease().withPod(0).granted(0).confirmed().pod(0, runs).seen().
				status(func(s *v1alpha1.SingletonJobStatus) { s.ActiveOrdinals, s.NextOrdinal = []int32{0, 1}, 2 }).
				pod(0, goes).withPod(1).granted(1),
			want: []string{"release j-0"}, ordinals: []int32{1}, held: "False/Granted", history: "j-0:101 Lapsed", events: "TermEnded Granted",
		},
		"a pod from a stale view goes": {
			scene: newScene(active(1)).withLease().withPod(0).withPod(1),
			want:  []string{"delete j-0 same=true"}, ordinals: []int32{1}, held: "False/NeverGranted",
		},
		"a pod of no known name goes": {
			scene: newScene(active(0)).withLease().withPod(0).withPod(7, func(p *corev1.Pod) { p.Name = "j-007" }),
			want:  []string{"delete j-007 same=true"}, ordinals: []int32{0}, held: "False/NeverGranted",
		},
		"more than wanted: the youngest that waits goes": {
			scene: newScene(active(0, 1, 2)).withLease().withPod(0).withPod(1).withPod(2).granted(1).confirmed().pod(1, runs).pod(0, runs).seen(),
			want:  []string{"delete j-2 same=true", "delete j-0 same=false"}, ordinals: []int32{0, 1, 2}, held: "True/Live",
		},
		"more than wanted: an unborn one is not born": {
			scene: newScene(active(0, 1)).withLease().withPod(0),
			want:  []string{}, ordinals: []int32{0}, held: "False/NeverGranted",
		},
		"an old waiting pod is replaced": {
			scene: newScene(active(0)).withLease().withPod(0, old),
			want:  []string{"delete j-0 same=true"}, ordinals: []int32{0}, held: "False/NeverGranted",
		},
		"an old holder is replaced": {
			scene: newScene(active(0)).withLease().withPod(0, old).granted(0).confirmed().pod(0, runs).seen(),
			want:  []string{"delete j-0 same=false"}, ordinals: []int32{0}, held: "True/Live",
		},
		"an old holder waits until old standbys are gone": {
			scene: newScene(standbys(1), active(0, 1)).withLease().withPod(0, old, runs).withPod(1, old, runs).granted(0).confirmed().seen(),
			want:  []string{"delete j-1 same=false"}, ordinals: []int32{0, 1}, held: "True/Live",
		},
		"an old holder waits until a new standby runs": {
			scene: newScene(standbys(1), active(0, 1)).withLease().withPod(0, old, runs).withPod(1).granted(0).confirmed().seen(),
			want:  []string{}, ordinals: []int32{0, 1}, held: "True/Live",
		},
		"an old holder makes place for a running standby": {
			scene: newScene(standbys(1), active(0, 1)).withLease().withPod(0, old, runs).withPod(1, runs).granted(0).confirmed().seen(),
			want:  []string{"delete j-0 same=false"}, ordinals: []int32{0, 1}, held: "True/Live",
		},
		"old work that runs to completion runs on": {
			scene: newScene(policy(never), active(0)).withLease().withPod(0, old).granted(0).confirmed().pod(0, runs).seen(),
			want:  []string{}, ordinals: []int32{0}, held: "True/Live",
		},
		"old work that cannot start is replaced": {
			scene: newScene(policy(never), active(0)).withLease().withPod(0, old).granted(0).seen(),
			want:  []string{"delete j-0 same=false"}, ordinals: []int32{0}, held: "False/Granted",
		},
		"a gated pod cannot be a standby": {
			scene: newScene(standbys(1), active(0, 1)).withLease().withPod(0, runs).
				withPod(1, func(p *corev1.Pod) {
					p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.SchedulingGate}}
				}).granted(0).confirmed().seen(),
			want: []string{"delete j-1 same=true"}, ordinals: []int32{0, 1}, held: "True/Live",
		},
		"configuration is put right": {
			scene: newScene(active(0)).withLease().withPod(0).edit(func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.AnnotationTakeUp] = "7" }),
			want:  []string{`update lease closed="" end="" floor=0 opens=false`}, ordinals: []int32{0}, held: "False/NeverGranted",
		},
		"configuration that cannot be understood is not written": {
			scene: func() *scene {
				return newScene(active(0)).withLease().withPod(0).closed(v1alpha1.ClosedNew).job(unfit)
			}(),
			want: []string{`prove lease closed="" opens=true`}, ordinals: []int32{0}, held: "False/NeverGranted", events: "InvalidSpec",
		},
		"nor is a Lease made of it": {
			scene: newScene(unfit), want: []string{}, held: "False/NeverGranted", events: "InvalidSpec",
		},
		"nor does it change a Lease": {
			scene: newScene(active(0)).withLease().withPod(0).job(unfit),
			want:  []string{}, ordinals: []int32{0}, held: "False/NeverGranted", events: "InvalidSpec",
		},
		"but the Lease is still closed": {
			scene: newScene(active(0)).withLease().withPod(0).job(unfit, suspend),
			want:  []string{`update lease closed="Suspended" end="" floor=0 opens=false`, "delete j-0 same=true"}, ordinals: []int32{0}, held: "False/Suspended",
			events: "InvalidSpec",
		},
		"a refused write is told, and tried again": {
			scene: newScene().withLease().refused("create pod j-0: exceeded quota"),
			want:  []string{"create 0 gated=true"}, ordinals: []int32{0}, held: "False/NeverGranted", events: "WriteRefused",
		},
		"a refused verdict is told, though the status may not say it": {
			scene: newScene(policy(never), active(0)).withLease().withPod(0).granted(0).confirmed().seen().pod(0, ends(0)).lapsed().refused("update lease j: no"),
			want:  []string{`update lease closed="Completed" end="" floor=0 opens=false`}, held: "True/Live", ordinals: []int32{0}, events: "WriteRefused",
		},
		"a Lease that a person closed is opened": {
			scene: newScene(active(0)).withLease().closed(v1alpha1.ClosedSuspended).withPod(0),
			want:  []string{`update lease closed="" end="" floor=0 opens=true`}, ordinals: []int32{0}, held: "False/NeverGranted",
		},
		"an unmanaged Lease stops everything": {
			scene: newScene(active(0)).withLease().edit(func(l *coordinationv1.Lease) { l.Labels = nil }).withPod(0, old),
			want:  []string{}, ordinals: []int32{0}, held: "False/NeverGranted", events: "LeaseConflict", requeue: 15 * time.Second,
		},
		"another's Lease stops everything": {
			scene: newScene().withLease().edit(func(l *coordinationv1.Lease) { l.OwnerReferences[0].UID = "another" }),
			want:  []string{}, held: "False/NeverGranted", events: "LeaseConflict", requeue: 15 * time.Second,
		},
		"a Lease that cannot be understood stops everything": {
			scene: newScene(active(0)).withLease().edit(func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.AnnotationToken] = "x" }).withPod(0, goes),
			want:  []string{}, ordinals: []int32{0}, held: "False/NeverGranted", events: "InvalidLease",
		},
		"suspended: the agent is asked, others go": {
			scene: newScene(active(0, 1), suspend).withLease().closed(v1alpha1.ClosedSuspended).closed("").withPod(0).withPod(1).granted(0).confirmed().pod(0, runs).seen(),
			want:  []string{`update lease closed="Suspended" end="103" floor=0 opens=false`, "delete j-1 same=true"},
			held:  "True/Live", ordinals: []int32{0, 1},
		},
		"suspended: who has not started is deleted": {
			scene: newScene(active(0), suspend).withLease().withPod(0).granted(0).seen(),
			want:  []string{`update lease closed="Suspended" end="" floor=0 opens=false`, "delete j-0 same=false"},
			held:  "False/Granted", ordinals: []int32{0},
		},
		"suspended: without an agent the holder is deleted": {
			scene: newScene(active(0), suspend, kubelet).withLease().withPod(0).granted(0).confirmed().pod(0, runs).seen(),
			want:  []string{`update lease closed="Suspended" end="" floor=0 opens=false`, "delete j-0 same=false"},
			held:  "True/Live", ordinals: []int32{0},
		},
		"suspended: it is asked once": {
			scene: newScene(active(0), suspend).withLease().withPod(0).granted(0).confirmed().pod(0, runs).closed(v1alpha1.ClosedSuspended).
				step(func(o lease.Observation) (*coordinationv1.Lease, error) { return o.RequestEnd() }).seen(),
			want: []string{}, held: "True/Live", ordinals: []int32{0},
		},
		"suspended: an ordinal without a pod is given up": {
			scene: newScene(active(0), suspend).withLease().closed(v1alpha1.ClosedSuspended),
			want:  []string{}, held: "False/Suspended", events: "Suspended",
		},
		"a suspended job without a Lease gets one": {
			scene: newScene(suspend), want: []string{"CreateLease"}, held: "False/Suspended", events: "Suspended",
		},
		"deleted: the Lease is closed, pods go": {
			scene: newScene(active(0, 1), deleted).withLease().withPod(0).withPod(1).granted(0).confirmed().pod(0, runs).seen(),
			want:  []string{`update lease closed="Deleting" end="" floor=0 opens=false`, "delete j-0 same=false", "delete j-1 same=true"},
			held:  "True/Live", ordinals: []int32{0, 1},
		},
		"deleted: the open term is awaited": {
			scene: newScene(active(0), deleted).withLease().closed("").withPod(0).granted(0).confirmed().pod(0, runs, goes).closed(v1alpha1.ClosedDeleting).seen(),
			want:  []string{}, held: "True/Live", ordinals: []int32{0},
		},
		"deleted: no term is open": {
			scene: newScene(active(0), deleted).withLease().withPod(0).granted(0).confirmed().pod(0, runs, goes).closed(v1alpha1.ClosedDeleting).seen().lapsed(),
			want:  []string{"DeleteLease", "release j-0"}, held: "False/Deleting", history: "j-0:101 Lapsed", events: "TermEnded",
		},
		"deleted: the Lease is let go": {
			scene: newScene(deleted).withLease().closed(v1alpha1.ClosedDeleting).edit(func(l *coordinationv1.Lease) { l.DeletionTimestamp = ptr.To(metav1.Now()) }),
			want:  []string{"RemoveLeaseFinalizer"}, held: "False/Deleting",
		},
		"deleted: another's finalizer is left to another": {
			scene: newScene(deleted).withLease().closed(v1alpha1.ClosedDeleting).edit(func(l *coordinationv1.Lease) {
				l.DeletionTimestamp, l.Finalizers = ptr.To(metav1.Now()), []string{"another"}
			}),
			want: []string{}, held: "False/Deleting",
		},
		"deleted: the job waits for pods with our finalizer": {
			scene: newScene(deleted, active(0)).withPod(0),
			want:  []string{"delete j-0 same=true"}, held: "False/Deleting", ordinals: []int32{0},
		},
		"deleted: without a Lease, pods that end are let go": {
			scene: newScene(deleted, active(0)).withPod(0, runs, goes, func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationToken] = "7" }),
			want:  []string{"release j-0"}, held: "False/Deleting", history: "j-0:7 Unknown", events: "TermEnded",
		},
		"deleted: pods go even if the Lease cannot be understood": {
			scene: newScene(deleted, active(0)).withLease().edit(func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.AnnotationToken] = "x" }).withPod(0),
			want:  []string{"delete j-0 same=true"}, held: "False/Deleting", ordinals: []int32{0}, events: "InvalidLease",
		},
		"deleted: all has ended": {
			scene: newScene(deleted), want: []string{"RemoveJobFinalizer"}, held: "False/Deleting",
		},
		"deleted: a foreign Lease is left alone": {
			scene: newScene(deleted).withLease().edit(func(l *coordinationv1.Lease) { l.Labels = nil }),
			want:  []string{"RemoveJobFinalizer"}, held: "False/Deleting",
		},
		"the Lease is deleted while it is held": {
			scene: newScene(active(0)).withLease().withPod(0).granted(0).confirmed().pod(0, runs).seen().
				edit(func(l *coordinationv1.Lease) { l.DeletionTimestamp = ptr.To(metav1.Now()) }),
			want: []string{}, held: "True/Live", ordinals: []int32{0},
		},
		"the Lease is deleted and its term has ended": {
			scene: newScene(active(0)).withLease().withPod(0).granted(0).confirmed().pod(0, runs).seen().released(v1alpha1.OutcomeRestarted).
				edit(func(l *coordinationv1.Lease) { l.DeletionTimestamp = ptr.To(metav1.Now()) }),
			want: []string{"RemoveLeaseFinalizer"}, held: "False/Ended", ordinals: []int32{0}, history: "j-0:101 Restarted", events: "TermEnded",
		},
		"success: the pod ends by itself, the rest goes": {
			scene: newScene(policy(onFailure), standbys(1), active(0, 1)).withLease().withPod(0, runs).withPod(1, runs).granted(0).confirmed().seen().released(v1alpha1.OutcomeSucceeded),
			want:  []string{"delete j-1 same=false"}, held: "False/Completed", ordinals: []int32{0, 1}, history: "j-0:101 Succeeded", events: "TermEnded Completed",
		},
		"success: the ended pod is kept": {
			scene: newScene(policy(never), active(0)).withLease().withPod(0).granted(0).confirmed().seen().released(v1alpha1.OutcomeSucceeded).pod(0, ends(0)),
			want:  []string{"release j-0"}, held: "False/Completed", history: "j-0:101 Succeeded", events: "TermEnded Completed",
		},
		"success that a lapse hid closes the Lease": {
			scene: newScene(policy(never), active(0)).withLease().withPod(0).granted(0).confirmed().seen().lapsed().pod(0, ends(0)),
			want:  []string{`update lease closed="Completed" end="" floor=0 opens=false`}, held: "True/Live", ordinals: []int32{0},
		},
		"and only then the status says so": {
			scene: newScene(policy(never), active(0)).withLease().withPod(0).granted(0).confirmed().seen().lapsed().pod(0, ends(0)).closed(v1alpha1.ClosedCompleted),
			want:  []string{"release j-0"}, held: "False/Completed", history: "j-0:101 Lapsed", events: "TermEnded Completed",
		},
		"success without a Lease makes no Lease": {
			scene: newScene(policy(never), active(0)).withPod(0, ends(0), func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationToken] = "7" }),
			want:  []string{"release j-0"}, held: "False/Completed", history: "j-0:7 Succeeded", events: "TermEnded Completed",
		},
		"a completed job makes no Lease": {
			scene: newScene(policy(never), is(v1alpha1.ConditionComplete)), want: []string{}, held: "False/Completed",
		},
		"a run that ended without word is awaited": {
			scene: newScene(policy(never), active(0)).withLease().withPod(0).granted(0).confirmed().seen().pod(0, ends(1)),
			want:  []string{}, held: "True/Live", ordinals: []int32{0},
		},
		"a failed run is followed by a pause": {
			scene: newScene(policy(never), active(0)).withLease().withPod(0).granted(0).confirmed().seen().released(v1alpha1.OutcomeFailed).pod(0, ends(1)),
			want:  []string{"release j-0"}, held: "False/Ended", history: "j-0:101 Failed", events: "TermEnded RunFailed", requeue: 10 * time.Second,
		},
		"failed for good": {
			scene: newScene(policy(never), active(0), func(job *v1alpha1.SingletonJob) { job.Spec.BackoffLimit = ptr.To[int32](0) }).
				withLease().withPod(0).granted(0).confirmed().seen().released(v1alpha1.OutcomeFailed).pod(0, ends(1)),
			want: []string{`update lease closed="Failed" end="" floor=0 opens=false`}, held: "True/Live", ordinals: []int32{0},
		},
		"failed for good: only then the status says so": {
			scene: newScene(policy(never), active(0), func(job *v1alpha1.SingletonJob) { job.Spec.BackoffLimit = ptr.To[int32](0) }).
				withLease().withPod(0).granted(0).confirmed().seen().released(v1alpha1.OutcomeFailed).pod(0, ends(1)).closed(v1alpha1.ClosedFailed),
			want: []string{"release j-0"}, held: "False/Failed", history: "j-0:101 Failed", events: "TermEnded RunFailed Failed",
		},
		"a Lease that is closed for failure is not opened by a view with fewer failures": {
			scene: newScene(policy(never), active(0)).withLease().withPod(0).closed(v1alpha1.ClosedFailed),
			want:  []string{"delete j-0 same=true"}, ordinals: []int32{0}, held: "False/Failed", events: "Failed",
		},
		"failed for good: the restarting pod goes": {
			scene: byKubelet(onFailure).pod(0, runs, restarted(7)).seen(),
			want:  []string{`update lease closed="Failed" end="" floor=0 opens=false`}, ordinals: []int32{0},
		},
		"failed for good: the restarting pod goes once the Lease is closed": {
			scene: byKubelet(onFailure).confirmed().pod(0, runs, restarted(7)).seen().closed(v1alpha1.ClosedFailed),
			want:  []string{"delete j-0 same=false"}, held: "True/Live", ordinals: []int32{0}, events: "RunFailed Held Failed",
		},
		"an earlier finished pod goes": {
			scene: newScene(policy(never), active(1)).withLease().withPod(0, ends(1)).withPod(1, ends(1), func(p *corev1.Pod) {
				p.Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(noon)
			}),
			want: []string{"release j-0", "release j-1", "delete j-0 same=false"}, held: "False/NeverGranted", events: "RunFailed", requeue: 10 * time.Second,
		},
		"a holder that its node refused is replaced after a pause, though its term ended with its deletion": {
			scene: newScene(active(0), kubelet).withLease().withPod(0).granted(0).confirmed().seen().died().pod(0, ends(137), goes, refusedByNode),
			want:  []string{"release j-0"}, held: "False/Ended", history: "j-0:101 Died", events: "TermEnded RunFailed", requeue: 10 * time.Second,
		},
		"the control: one that was merely deleted is replaced at once": {
			scene: newScene(active(0), kubelet).withLease().withPod(0).granted(0).confirmed().seen().died().pod(0, ends(137), goes),
			want:  []string{"release j-0", "create 1 gated=true"}, held: "False/Ended", history: "j-0:101 Died", events: "TermEnded", ordinals: []int32{1},
		},
		"a pod that its node refused is replaced after a pause": {
			scene: newScene(active(0)).withLease().withPod(0, ends(1)),
			want:  []string{"release j-0", "delete j-0 same=false"}, held: "False/NeverGranted", events: "RunFailed", requeue: 10 * time.Second,
		},
		"a lost Lease: the dead holder is put on record": {
			scene: newScene(policy(never), active(0)).withPod(0, ends(1), func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationToken] = "7" }),
			want:  []string{"CreateLease"}, held: "False/Ended", ordinals: []int32{0}, history: "j-0:7 Died", events: "TermEnded",
		},
		"a lost Lease: the living holder is not": {
			scene: newScene(active(0)).withPod(0, runs, func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationToken] = "7" }),
			want:  []string{"CreateLease"}, held: "False/NeverGranted", ordinals: []int32{0},
		},
		"a token above the version is recorded first": {
			scene: newScene(active(0), func(job *v1alpha1.SingletonJob) { job.Spec.Lease.MinToken = 1 << 40 }).withLease().withPod(0),
			want:  []string{fmt.Sprintf(`update lease closed="" end="" floor=%d opens=false`, int64(1<<40)+1000)}, ordinals: []int32{0}, held: "False/NeverGranted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := tc.scene.Job.DeepCopy()
			got := Decide(tc.scene.Observed)
			if diff := cmp.Diff(tc.want, render(got)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if len(got.Actions) > len(got.Notes) {
				t.Errorf("%d actions, but only %d notes", len(got.Actions), len(got.Notes))
			}
			if !slices.Equal(got.Status.ActiveOrdinals, tc.ordinals) {
				t.Errorf("ordinals are %v, want %v", got.Status.ActiveOrdinals, tc.ordinals)
			}
			wantEqual(t, "Held", conditionOf(got.Status, v1alpha1.ConditionHeld), tc.held)
			wantEqual(t, "history", historyOf(got.Status), tc.history)
			wantEqual(t, "events", reasons(got), tc.events)
			wantEqual(t, "requeue", got.RequeueAfter, tc.requeue)
			if diff := cmp.Diff(before, tc.scene.Job); diff != "" {
				t.Errorf("the observation was changed:\n%s", diff)
			}
			if again := Decide(tc.scene.Observed); cmp.Diff(render(got), render(again)) != "" {
				t.Error("the same observation gives another plan")
			}
		})
	}
}
