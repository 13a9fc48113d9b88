// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	corev1 "k8s.io/api/core/v1"

	"leasehold.dev/api/v1alpha1"
)

// The API server may refuse a write of a pod for good: a policy, a webhook or a
// missing right. Whoever waits for the lease must learn of it, and nothing
// unsafe may be done instead.

// admitted lets a plan stand whose first write is not known to be refused. Else
// the Lease says what is in the way; once it does, the write is tried again.
func (d decider) admitted(p Plan) Plan {
	if len(p.Actions) == 0 {
		return p
	}
	text := d.Refused[writes(p.Actions[0])]
	if text == "" {
		return p
	}
	blocked := d.blocked(v1alpha1.BlockedPodWriteRefused, text)
	p.Notes = append(p.Notes, blocked.Notes...)
	if len(blocked.Actions) > 0 {
		p.Actions = blocked.Actions
	}
	return p
}

// writes tells which pod an action writes, and how; zero: none.
func writes(a Action) PodWrite {
	switch a := a.(type) {
	case StampPod:
		return PodWrite{UID: a.Pod.UID}
	case MarkEnded:
		return PodWrite{UID: a.Pod.UID}
	case GuardPod:
		return PodWrite{UID: a.Pod.UID}
	case FreePod:
		return PodWrite{UID: a.Pod.UID}
	case RevokePod:
		return PodWrite{a.Pod.UID, true}
	case RemovePod:
		return PodWrite{a.Pod.UID, true}
	}
	return PodWrite{}
}

// revoke writes the old pod before its term ends, so that no late stamp of that
// term lands. A pod that is gone can not be stamped by anybody. Where the pod
// may not be patched there are other ways, without which a policy in the way of
// one pod would hold up all that wait:
//
//   - Of a pod that was seen to be deleted, or to carry all that this term
//     would write, nobody who sees as much plans a stamp, and who saw less has
//     an older version, so that his fails.
//   - One of ours that still waits behind the gate is deleted, which changes it
//     as a mark would. Others' are not: a Job would count that as a failure.
func (d decider) revoke() []Action {
	pod := d.Holder
	if pod == nil {
		return nil
	}
	refused := d.Refused[PodWrite{UID: pod.UID}] != ""
	switch {
	case refused && (pod.DeletionTimestamp != nil || d.stamped()):
		return nil
	case refused && gate(pod) >= 0 && Ours(pod):
		return []Action{RevokePod{pod, Event{
			Warning: true, Reason: ReasonEvicted, Action: ActionEvict, Pod: pod,
			Note: "Deleted pod " + pod.Name + ", which may not be written, to take its grant back",
		}}}
	}
	return []Action{MarkEnded{pod, decimal(d.r.Token)}}
}

// keptLeftover says what keeps a pod that should be gone, and that is no
// candidate until then; empty: nothing.
func (d decider) keptLeftover() string {
	for _, pod := range d.Pods {
		if text := d.keeps(pod); text != "" && d.leftover(pod) {
			return text
		}
	}
	return ""
}

// keeps is why the pod could not be removed.
func (d decider) keeps(pod *corev1.Pod) string { return d.Refused[PodWrite{pod.UID, true}] }

// refusedRemoval adds to the text of a block that the holder's pod cannot be
// removed either.
func (d decider) refusedRemoval() string {
	if d.Holder == nil || d.Holder.DeletionTimestamp != nil || d.keeps(d.Holder) == "" {
		return ""
	}
	return ". In the way of that, too: " + d.keeps(d.Holder)
}
