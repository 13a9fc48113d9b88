// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"leasehold.dev/leaderelect/lease"
	"leasehold.dev/leaderelect/lease/death"
)

// argument is why the recorded term is over.
type argument struct {
	lease.Basis
	why string
	// age is the age of the Lease for this argument.
	age time.Duration
}

// over looks for an argument that the recorded term has ended.
func (d decider) over() (argument, bool) {
	a := argument{Basis: lease.Basis{Holder: d.r.GrantHolder, Started: d.r.Started}, age: d.Age}
	if d.Holder != nil {
		if proof := death.Judge(d.Holder, d.r.Started); proof.Dead {
			a.Kind, a.Succeeded, a.why = lease.ByDeath, proof.Succeeded, proof.Reason
			return a, d.holds(a)
		}
		if why := d.vouched(); why != "" {
			a.Kind, a.why = lease.ByVouching, why
			return a, d.holds(a)
		}
	}
	a.Kind, a.age = lease.ByLapse, d.silentFor()
	a.why = fmt.Sprintf("unchanged for %s", a.age.Round(time.Millisecond))
	return a, d.holds(a)
}

func (d decider) holds(a argument) bool {
	return lease.Observation{Lease: d.Lease, Age: a.age}.Ended(d.r, a.Basis) == nil
}

// silentFor is how long nothing has spoken for the holder. Where its kubelet
// does, the Lease does not move, and it is the silence of pod and node; but
// never longer than this process has known the grant.
func (d decider) silentFor() time.Duration {
	if ByKubelet(d.r) {
		return min(d.Age, d.Silence)
	}
	return d.Age
}

func (d decider) lapsed() bool { return d.silentFor() >= d.r.Longest }

// ForceDeleted reports whether somebody asked for the pod's deletion with a
// grace period of zero. A pod that has no grace anyway is deleted so by
// everybody, this controller included, and pod garbage collection does it to
// pods of a Node object that is gone: neither is anybody's word.
func ForceDeleted(pod *corev1.Pod) bool {
	if g := pod.DeletionGracePeriodSeconds; pod.DeletionTimestamp == nil || g == nil || *g != 0 {
		return false
	}
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil && *own == 0 {
		return false
	}
	return !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == reasonDeletionByPodGC
	})
}

// reasonDeletionByPodGC is what pod garbage collection writes before it deletes.
const reasonDeletionByPodGC = "DeletionByPodGC"

// vouched says by what an operator has vouched for the end of the holder. Nobody
// can vouch for the end of one that is still heard of.
func (d decider) vouched() string {
	switch {
	case d.Holder.DeletionTimestamp == nil || !d.lapsed():
		return ""
	case d.NodeOutOfService:
		return "its node is tainted out of service"
	case d.ForceDeletedFor > 0 && d.ForceDeletedFor >= d.forceDeleteWait():
		return fmt.Sprintf("it was force-deleted %s ago; if its process still runs, work may overlap",
			d.ForceDeletedFor.Round(time.Second))
	}
	return ""
}
