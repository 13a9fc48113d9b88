// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types of a SingletonJob.
const (
	// ConditionHeld is True while a holder has confirmed its grant and its term
	// has not ended.
	ConditionHeld = "Held"
	// ConditionBlocked is True while nothing can be granted until something
	// outside happens; the message says what is awaited and the ways out.
	ConditionBlocked = "Blocked"
	// ConditionComplete is True when work that runs to completion has
	// succeeded. It never runs again.
	ConditionComplete = "Complete"
	// ConditionFailed is True when work that runs to completion has failed
	// more often than backoffLimit allows.
	ConditionFailed = "Failed"
	// ConditionSuspended is True when spec.suspend is set and no term is open.
	ConditionSuspended = "Suspended"
	// ConditionLeaseDurationAdequate compares the duration with the holder's
	// critical sections.
	ConditionLeaseDurationAdequate = "LeaseDurationAdequate"
	// ConditionTokenSourceRegressed is True when tokens would go backwards.
	ConditionTokenSourceRegressed = "TokenSourceRegressed"
)

// Outcome says how a term ended.
type Outcome string

// Outcomes of terms.
const (
	// OutcomeSucceeded: the work ended with status 0 and said so.
	OutcomeSucceeded Outcome = "Succeeded"
	// OutcomeFailed: the work ended with another status.
	OutcomeFailed Outcome = "Failed"
	// OutcomeStopped: the work was asked to stop (pod deleted, end requested,
	// signal) and ended.
	OutcomeStopped Outcome = "Stopped"
	// OutcomeRestarted: the holder was restarted in place and ended the term
	// of its earlier start.
	OutcomeRestarted Outcome = "Restarted"
	// OutcomeWithdrawn: the grant was withdrawn before any work began.
	OutcomeWithdrawn Outcome = "Withdrawn"
	// OutcomeLapsed: the lease stayed unchanged for its duration.
	OutcomeLapsed Outcome = "Lapsed"
	// OutcomeDied: the containers are proven to have ended without a release.
	OutcomeDied Outcome = "Died"
	// OutcomeVouched: an operator vouched for the end of the holder.
	OutcomeVouched Outcome = "Vouched"
	// OutcomeUnknown: the term has ended, and nothing says how: later terms
	// were granted before its owner looked.
	OutcomeUnknown Outcome = "Unknown"
)

// Closed says why nothing is granted on a Lease.
type Closed string

// Reasons for which a Lease is closed.
const (
	// ClosedNew: the Lease was just made and its owner not looked at since.
	ClosedNew Closed = "New"
	// ClosedCompleted: the work has succeeded.
	ClosedCompleted Closed = "Completed"
	// ClosedFailed: the work has failed for good.
	ClosedFailed Closed = "Failed"
	// ClosedSuspended: the owner is suspended.
	ClosedSuspended Closed = "Suspended"
	// ClosedDeleting: the owner or the Lease is being deleted.
	ClosedDeleting Closed = "Deleting"
)

// Reasons of the Blocked annotation and condition.
const (
	// BlockedHolderUnreachable: under Forbid the holder has lapsed and is not
	// proven dead.
	BlockedHolderUnreachable = "HolderUnreachable"
	// BlockedForeignHolder: an elector that does not know the protocol has
	// taken or wiped the Lease.
	BlockedForeignHolder = "ForeignHolder"
	// BlockedTakeUpFailed: a granted pod did not start its work in time.
	BlockedTakeUpFailed = "TakeUpFailed"
	// BlockedPodWriteRefused: the API server refuses the manager a write of a
	// pod (a policy, a webhook, a role), without which nothing goes on.
	BlockedPodWriteRefused = "PodWriteRefused"
	// BlockedWriteRefused: the API server refuses the manager a write of the
	// Lease, or one that the job needs (a quota, a policy, a webhook, a role).
	BlockedWriteRefused = "WriteRefused"
	// BlockedInvalidSpec: spec.lease cannot be put into a Lease. A Lease that
	// there is stays as it is.
	BlockedInvalidSpec = "InvalidSpec"
	// BlockedInvalidLease: the Lease cannot be understood.
	BlockedInvalidLease = "InvalidLease"
	// BlockedNoToken: no token can be minted.
	BlockedNoToken = "NoToken"
	// BlockedLeaseConflict: the Lease's name is taken by a Lease that Leasehold
	// does not manage, or that belongs to another owner.
	BlockedLeaseConflict = "LeaseConflict"
	// BlockedPodConflict: a pod's name is taken by a pod that is not the job's.
	BlockedPodConflict = "PodConflict"
)
