// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"leasehold.dev/api/v1alpha1"
)

// Observed is what was seen. Nothing in it is changed.
type Observed struct {
	// Now is the wall clock, for people and for the back-off between runs. No
	// term is judged by it.
	Now time.Time
	// Job is the job, possibly from a cache: the status write finds out.
	Job *v1alpha1.SingletonJob
	// Lease is what stands under the Lease's name, read live after the pods;
	// nil: nothing.
	Lease *coordinationv1.Lease
	// Pods are the pods that the job controls. A pod of an active ordinal that
	// the cache lacked was looked for live.
	Pods []*corev1.Pod
	// Strangers are the names of active ordinals under which stands a pod that
	// the job does not control.
	Strangers []string
	// Access is how the Role and RoleBinding of the pods stand.
	Access Access
	// Refused is a write, for the job or on its Lease, that the API server refused
	// when it was last tried, and does not admit for all that is known; empty:
	// none.
	Refused string
	// Revision is the hash of the template.
	Revision string
}

// Access is how the pods' Role and RoleBinding stand.
type Access string

// How the pods' Role and RoleBinding stand.
const (
	// AccessUnneeded: nothing in the pod speaks to the API.
	AccessUnneeded Access = ""
	// AccessCurrent: they are as they should be.
	AccessCurrent Access = "Current"
	// AccessOutdated: they are missing or differ.
	AccessOutdated Access = "Outdated"
	// AccessForeign: something that the job does not control has their name.
	AccessForeign Access = "Foreign"
)

// Plan is what to do.
type Plan struct {
	// Status is written before the first action, if it differs from the job's.
	Status v1alpha1.SingletonJobStatus
	// Actions follow in order.
	Actions []Action
	// Events tell people what the status write changed.
	Events []Event
	// Ended are the terms that the status write adds to the history.
	Ended []v1alpha1.TermStatus
	// RequeueAfter is when to look again though nothing happens; zero: no need.
	RequeueAfter time.Duration
	// Notes say why, one an action.
	Notes []string
}

// Action is one write.
type Action interface{ action() }

// AddJobFinalizer puts FinalizerJob on the job.
type AddJobFinalizer struct{}

// RemoveJobFinalizer lets the job go, if a live look finds none of its pods
// with a finalizer of ours.
type RemoveJobFinalizer struct{}

// CreateLease creates the Lease, closed, with what live reads of the job and
// its pods still know about earlier terms (CarryOf).
type CreateLease struct{}

// UpdateLease writes the Lease under the UID and version that it was read with.
type UpdateLease struct {
	Lease *coordinationv1.Lease
	// Opens: the Lease is opened by this write, so the job must be looked at
	// live first. A stale view must never open it again.
	Opens bool
	// SameJob: the write closes the Lease for good, so the job must be, live, at
	// the version that was seen. A stale view must never end a job.
	SameJob bool
}

// ProveLease writes a new Lease if, by live reads, it knows as much of earlier
// terms as the job and its pods do, and removes it otherwise.
type ProveLease struct {
	Seen  *coordinationv1.Lease
	Lease *coordinationv1.Lease
	// Opens: as in UpdateLease.
	Opens bool
}

// RemoveLeaseFinalizer lets a deleted Lease go, at the version seen.
type RemoveLeaseFinalizer struct{ Lease *coordinationv1.Lease }

// DeleteLease deletes the Lease, at the version seen.
type DeleteLease struct{ Lease *coordinationv1.Lease }

// ApplyAccess applies the pods' Role and RoleBinding.
type ApplyAccess struct{}

// CreatePod creates the pod of a reserved ordinal.
type CreatePod struct {
	Ordinal int32
	// Gated: the pod gets our scheduling gate, and runs nowhere until it is
	// granted the lease.
	Gated bool
}

// DeletePod deletes exactly this pod.
type DeletePod struct {
	Pod *corev1.Pod
	// SameVersion: only if nobody wrote the pod since it was read.
	SameVersion bool
}

// RemovePodFinalizer lets a pod go, at the version seen.
type RemovePodFinalizer struct{ Pod *corev1.Pod }

func (AddJobFinalizer) action()      {}
func (RemoveJobFinalizer) action()   {}
func (CreateLease) action()          {}
func (ProveLease) action()           {}
func (UpdateLease) action()          {}
func (RemoveLeaseFinalizer) action() {}
func (DeleteLease) action()          {}
func (ApplyAccess) action()          {}
func (CreatePod) action()            {}
func (DeletePod) action()            {}
func (RemovePodFinalizer) action()   {}

// Event tells people what changed.
type Event struct {
	Warning bool
	Reason  string
	Action  string
	Note    string
}

// Reasons and actions of events.
const (
	EventGranted   = "Granted"
	EventHeld      = "Held"
	EventEnded     = "TermEnded"
	EventCompleted = "Completed"
	EventFailed    = "Failed"
	EventRunFailed = "RunFailed"
	EventSuspended = "Suspended"
	EventResumed   = "Resumed"
	EventUnblocked = "Unblocked"

	ActionGrant   = "Grant"
	ActionEnd     = "EndTerm"
	ActionFinish  = "Finish"
	ActionSuspend = "Suspend"
	ActionWait    = "Wait"
)

// Reasons of conditions that the API package does not list.
const (
	ReasonLive         = "Live"
	ReasonGranted      = "Granted"
	ReasonNeverGranted = "NeverGranted"
	ReasonEnded        = "Ended"
	ReasonDisputed     = "Disputed"
	ReasonNotBlocked   = "NotBlocked"
	ReasonNotFinished  = "NotFinished"
	ReasonSucceeded    = "Succeeded"
	ReasonBackoffLimit = "BackoffLimitExceeded"
	ReasonRunning      = "Running"
	ReasonStopping     = "Stopping"
	ReasonSuspended    = "Suspended"
	ReasonRoleConflict = "RoleConflict"
)

const (
	// historyLimit is how many terms the status keeps.
	historyLimit = 10
	// floorBlock is how many tokens are recorded ahead, so that not every grant
	// needs a write of the job.
	floorBlock = 1000
	// defaultBackoffLimit is batch/v1 Job's.
	defaultBackoffLimit = 6
	// firstBackoff doubles with each failed run, up to maxBackoff.
	firstBackoff = 10 * time.Second
	maxBackoff   = 6 * time.Minute
	// lookAgain is when a conflict with a stranger is looked at again; its end
	// may happen where no watch of ours looks.
	lookAgain = 15 * time.Second
)
