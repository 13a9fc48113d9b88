// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// Observed is what was seen.
type Observed struct {
	// Lease is the live Lease and its age.
	lease.Observation
	// Issuer is who issues the tokens of this Lease.
	Issuer string
	// Now is the wall clock, for people who read the Lease.
	Now time.Time
	// Pods are those that ask for the Lease, read before it.
	Pods []*corev1.Pod
	// Holder is the pod that the newest grant names; nil: there is no such pod,
	// by a live read.
	Holder *corev1.Pod
	// HolderReadLate: Holder was read after the Lease, so that it may not be
	// stamped from this observation.
	HolderReadLate bool
	// HolderWasReady: the holder's pod has been ready at some time, as this
	// process has seen, or its annotation says.
	HolderWasReady bool
	// NodeOutOfService: an operator has tainted the holder's node as out of
	// service.
	NodeOutOfService bool
	// ForceDeletedFor is how long the holder has been seen deleted with a grace
	// period of zero.
	ForceDeletedFor time.Duration
	// Silence is how long pod and node of a holder that the kubelet stands for
	// (ByKubelet) have been silent, or its pod has been gone.
	Silence time.Duration
	// EvictionRefused are pods that this process could not evict, since a
	// PodDisruptionBudget refused.
	EvictionRefused map[types.UID]bool
	// Refused is what the API server said when it last refused this process a
	// write of a pod, with the way out.
	Refused map[PodWrite]string
}

// PodWrite is a kind of write to one pod.
type PodWrite struct {
	UID types.UID
	// Removal: a deletion or eviction; else a patch.
	Removal bool
}

// Plan is what to do, in order.
type Plan struct {
	Actions []Action
	// Lapse is how long the Lease must have been unchanged when to look again;
	// zero: there is no need.
	Lapse time.Duration
	// TakeUp is the age of the grant at which to look again; zero: no need.
	TakeUp time.Duration
	// RequeueAfter is when to look again for another reason; zero: no need.
	RequeueAfter time.Duration
	// Notes say why, one a rule.
	Notes []string
}

// Grantee returns the pod that the plan grants the Lease to, nil if to none.
func (p Plan) Grantee() *corev1.Pod {
	for _, a := range p.Actions {
		if u, ok := a.(UpdateLease); ok && u.Event.Reason == ReasonGranted {
			return u.Event.Pod
		}
	}
	return nil
}

// Action is one write.
type Action interface{ action() }

// UpdateLease writes the Lease under the observation's UID and version.
type UpdateLease struct {
	Lease *coordinationv1.Lease
	Event Event
}

// StampPod gives the pod its token and, where it is cold, removes our gate, in
// one patch under the pod's version.
type StampPod struct {
	Pod   *corev1.Pod
	Token string
	Gate  int // Index of our gate; negative: none is left.
}

// MarkEnded writes the ended token into the pod. It always changes the pod.
type MarkEnded struct {
	Pod   *corev1.Pod
	Token string
}

// RevokePod deletes a pod that still waits behind our gate, under its UID and
// version: a revocation like MarkEnded, where the pod may not be patched.
type RevokePod struct {
	Pod   *corev1.Pod
	Event Event
}

// RemovePod deletes a pod that Leasehold made, and evicts any other.
type RemovePod struct {
	Pod   *corev1.Pod
	Event Event
}

// NoteReady writes into the pod that it has been ready in the term of the token,
// so that every process knows.
type NoteReady struct {
	Pod   *corev1.Pod
	Token string
}

// GuardPod puts our finalizer on the pod, under the pod's version.
type GuardPod struct {
	Pod *corev1.Pod
}

// FreePod takes our finalizer off the pod, under the pod's version.
type FreePod struct {
	Pod *corev1.Pod
}

func (UpdateLease) action() {}
func (StampPod) action()    {}
func (MarkEnded) action()   {}
func (RevokePod) action()   {}
func (RemovePod) action()   {}
func (NoteReady) action()   {}
func (GuardPod) action()    {}
func (FreePod) action()     {}

// Event tells people what was done, once it is done.
type Event struct {
	// Warning: something went wrong.
	Warning bool
	Reason  string
	Action  string
	Note    string
	// Basis labels the metric of grants and ends; empty: none.
	Basis string
	// Pod is what the event is also about.
	Pod *corev1.Pod
}

// Reasons and actions of events.
const (
	ReasonGranted         = "Granted"
	ReasonConfirmed       = "Confirmed"
	ReasonWithdrawn       = "Withdrawn"
	ReasonTermEnded       = "TermEnded"
	ReasonEvicted         = "Evicted"
	ReasonEvictionRefused = "EvictionRefused"
	ReasonPodWriteRefused = "PodWriteRefused"
	ReasonBlocked         = "Blocked"
	ReasonUnblocked       = "Unblocked"

	ActionGrant    = "Grant"
	ActionWithdraw = "Withdraw"
	ActionEnd      = "EndTerm"
	ActionEvict    = "Evict"
	ActionWait     = "Wait"
)

// Ours reports whether Leasehold made the pod.
func Ours(pod *corev1.Pod) bool {
	for _, o := range pod.OwnerReferences {
		if o.Controller != nil && *o.Controller {
			return o.APIVersion == v1alpha1.GroupVersion.String()
		}
	}
	return false
}
