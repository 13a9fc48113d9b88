// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Labels.
const (
	// LabelManaged marks, with the value "true", a Lease that Leasehold manages.
	// A Lease without it is never written to, whatever its name.
	LabelManaged = "leasehold.dev/managed"
	// LabelCompeting marks, with the value "true", a Lease that candidates take
	// themselves, without a controller. A Lease never has both labels.
	LabelCompeting = "leasehold.dev/competing"
	// LabelLease on a pod names the Lease that the pod asks for. The pod is
	// then a candidate for it.
	LabelLease = "leasehold.dev/lease"
	// LabelJob on a pod, Lease, Role or RoleBinding names the SingletonJob that
	// it belongs to.
	LabelJob = "leasehold.dev/job"
	// LabelRole on a pod is by what Services select the leader: RoleLeader or
	// RoleStandby. Only the manager writes it.
	LabelRole = "leasehold.dev/role"
	// RoleLeader is the LabelRole of the pod that holds the lease.
	RoleLeader = "leader"
	// RoleStandby is the LabelRole of the others.
	RoleStandby = "standby"
	// LabelManagedBy and ManagedBy are the recommended label of things that
	// Leasehold makes.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedBy is the value of LabelManagedBy.
	ManagedBy = "leasehold"
)

// Gate, finalizers.
const (
	// SchedulingGate holds a cold candidate back until it is granted its lease.
	SchedulingGate = "leasehold.dev/lease"
	// FinalizerLease keeps a managed Lease until its term has ended and the
	// outcome is in its owner's status. Under Forbid it also keeps a candidate
	// that Leasehold did not make, from before its grant until it is proven to
	// have ended. Only the manager removes it.
	FinalizerLease = "leasehold.dev/lease"
	// FinalizerOutcome keeps a pod until its outcome is in its owner's status.
	FinalizerOutcome = "leasehold.dev/outcome"
	// FinalizerJob keeps a SingletonJob until its pods and Lease have ended in
	// order.
	FinalizerJob = "leasehold.dev/singletonjob"
)

// Annotations of a managed Lease that describe the term.
const (
	// AnnotationToken is the fencing token of the newest grant, in decimal. On
	// a pod it is the token of a grant that names this pod.
	AnnotationToken = "leasehold.dev/fencing-token"
	// AnnotationHolder is the holder that the newest grant names.
	AnnotationHolder = "leasehold.dev/holder"
	// AnnotationTerm is the number of the newest term. It equals
	// spec.leaseTransitions after the grant; a grant counts only while it does.
	AnnotationTerm = "leasehold.dev/term"
	// AnnotationStarted is the nonce with which the holder confirmed the grant.
	AnnotationStarted = "leasehold.dev/started"
	// AnnotationReleasedToken is the token of the newest term that has ended.
	// The Lease is free when it equals AnnotationToken.
	AnnotationReleasedToken = "leasehold.dev/released-token"
	// AnnotationOutcome says how the term of AnnotationReleasedToken ended.
	AnnotationOutcome = "leasehold.dev/outcome"
	// AnnotationClosed says why nothing is granted on this Lease.
	AnnotationClosed = "leasehold.dev/closed"
	// AnnotationEndRequested carries the token whose holder is asked to stop
	// its work and release.
	AnnotationEndRequested = "leasehold.dev/end-requested"
	// AnnotationBlocked says, as "Reason: message", why nothing can be granted
	// until something outside happens. The manager writes it.
	AnnotationBlocked = "leasehold.dev/blocked"
	// AnnotationBehind carries a mark that the holder found above its token.
	AnnotationBehind = "leasehold.dev/behind"
	// AnnotationSectionP99 is the 99th percentile of the holder's critical
	// sections, in milliseconds.
	AnnotationSectionP99 = "leasehold.dev/section-p99"
	// AnnotationLongestDuration is the longest duration, in seconds, that this
	// Lease ever had. Every wait for a lapse uses it.
	AnnotationLongestDuration = "leasehold.dev/longest-duration-seconds"
	// AnnotationIssuer is clusterUID/namespace/lease: who issued the token.
	AnnotationIssuer = "leasehold.dev/issuer"
)

// Annotations of a managed Lease that configure it.
const (
	// AnnotationDuration is the duration, in seconds, of the next term.
	AnnotationDuration = "leasehold.dev/duration-seconds"
	// AnnotationRenewInterval is the time between two renewals, in seconds.
	AnnotationRenewInterval = "leasehold.dev/renew-interval-seconds"
	// AnnotationTakeUp is how long a granted candidate may take to confirm, in
	// seconds.
	AnnotationTakeUp = "leasehold.dev/take-up-seconds"
	// AnnotationLockDelay is added under Forbid before a force delete counts, in
	// seconds.
	AnnotationLockDelay = "leasehold.dev/lock-delay-seconds"
	// AnnotationOverlapPolicy is an OverlapPolicy.
	AnnotationOverlapPolicy = "leasehold.dev/overlap-policy"
	// AnnotationRenewedBy is a RenewedBy.
	AnnotationRenewedBy = "leasehold.dev/renewed-by"
	// AnnotationMinToken is the least token of the next grant.
	AnnotationMinToken = "leasehold.dev/min-token"
	// AnnotationTokenFloor is the owner's recorded tokenFloor: a token above the
	// observed resourceVersion is granted only up to it. Absent: the Lease has
	// no owner that records, and there is no limit.
	AnnotationTokenFloor = "leasehold.dev/token-floor"
	// AnnotationCandidateOwner is the UID of the controller of candidate pods;
	// absent: any pod.
	AnnotationCandidateOwner = "leasehold.dev/candidate-owner-uid"
	// AnnotationCloseOn is "Success" where a successful end of the work closes
	// the Lease in the same write (run-to-completion work).
	AnnotationCloseOn = "leasehold.dev/close-on"
	// CloseOnSuccess is the value of AnnotationCloseOn.
	CloseOnSuccess = "Success"
)

// Annotations of pods.
const (
	// AnnotationEndedToken on a pod is the token of the pod's term that the
	// manager has ended or is about to end. Writing it makes any late patch of
	// another manager instance fail.
	AnnotationEndedToken = "leasehold.dev/ended-token"
	// AnnotationEndedVersion is the pod's resourceVersion on which the ended
	// token was written, so that the write always changes the pod.
	AnnotationEndedVersion = "leasehold.dev/ended-version"
	// AnnotationWasReady on a pod is the token with which its kubelet stands for
	// its term, once the pod has been ready: from then on it lapses when it is
	// not.
	AnnotationWasReady = "leasehold.dev/was-ready"
	// AgentVolume is the name of the image volume with the agent, and AgentPath
	// where the work's container finds it.
	AgentVolume = "leasehold-agent"
	// AgentMountPath is where the agent's image is mounted, read-only.
	AgentMountPath = "/.leasehold"
	// AgentPath is the agent's binary in the work's container.
	AgentPath = "/.leasehold/agent"
	// AnnotationRevision on a pod is the hash of the template that made it.
	AnnotationRevision = "leasehold.dev/revision"
)

// Environment variables of the work, a documented and stable contract.
const (
	// EnvToken carries the fencing token in decimal.
	EnvToken = "FENCING_TOKEN"
	// EnvHolder carries the holder, <podName>_<podUID>.
	EnvHolder = "FENCING_HOLDER"
	// EnvIssuer carries the issuer of the token.
	EnvIssuer = "FENCING_ISSUER"
	// EnvLeaseName carries the name of the Lease.
	EnvLeaseName = "LEASE_NAME"
	// EnvLeaseNamespace carries the namespace of the Lease.
	EnvLeaseNamespace = "LEASE_NAMESPACE"
	// EnvPodName and EnvPodUID tell the agent who it is.
	EnvPodName = "LEASEHOLD_POD_NAME"
	// EnvPodUID carries the UID of the pod.
	EnvPodUID = "LEASEHOLD_POD_UID"
	// EnvContainer carries the name of the container that the agent runs in.
	EnvContainer = "LEASEHOLD_CONTAINER"
)

// Exit statuses with which an agent says that not its work has failed.
const (
	// AgentExitNoAPI: what the agent had to learn from the API server, or to make
	// known there, could not be.
	AgentExitNoAPI = 69
	// AgentExitLost: the term ended before its work did.
	AgentExitLost = 75
)
