// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// SingletonJob runs one pod at a time as the holder of a Lease, and gives that
// pod a fencing token with which a protected resource can refuse its
// predecessors.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=sj,categories=all
// +kubebuilder:printcolumn:name="Holder",type=string,JSONPath=`.status.holder.pod`
// +kubebuilder:printcolumn:name="Token",type=integer,JSONPath=`.status.holder.token`
// +kubebuilder:printcolumn:name="Held",type=string,JSONPath=`.status.conditions[?(@.type=="Held")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Held")].reason`,priority=1
// +kubebuilder:printcolumn:name="Transitions",type=integer,JSONPath=`.status.transitions`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 52",message="metadata.name must be at most 52 characters, so that pod names and the lease label fit: choose a shorter name"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a DNS label (lower case letters, digits and '-'): remove dots, so that pod names and the lease label are valid"
type SingletonJob struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says what to run and what an overlap of two runs would cost.
	// +required
	Spec SingletonJobSpec `json:"spec,omitzero"` //nolint:kubeapilinter // never empty: the template is required

	// status says who holds the lease now, and what has come of earlier terms.
	// +optional
	Status SingletonJobStatus `json:"status,omitzero"`
}

// SingletonJobList is a list of SingletonJobs.
//
// +kubebuilder:object:root=true
type SingletonJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []SingletonJob `json:"items"`
}

// OverlapPolicy says what it would cost if two pods ran at once.
//
// +kubebuilder:validation:Enum=Fence;Forbid;Tolerate
type OverlapPolicy string

// The overlap policies. Terms never overlap under any of them; pods may.
const (
	// OverlapFence: an overlap would corrupt state, but the resource checks
	// tokens. Hand over on release, proof of death, or lapse.
	OverlapFence OverlapPolicy = "Fence"
	// OverlapForbid: an overlap would corrupt state and the resource cannot
	// check. Hand over only on release or proof of death, or when an operator
	// vouches for the end of the holder.
	OverlapForbid OverlapPolicy = "Forbid"
	// OverlapTolerate: an overlap only wastes compute. It acts exactly as
	// OverlapFence: no pod starts earlier for it, neither at a hand-over nor at a
	// roll-out. It states that no resource checks tokens, and that none needs to.
	OverlapTolerate OverlapPolicy = "Tolerate"
)

// RenewedBy says who renews the lease on behalf of the work.
//
// +kubebuilder:validation:Enum=Agent;Sidecar;Application;Kubelet
type RenewedBy string

// Who renews.
const (
	// RenewedByAgent: the agent is the parent of the work's command.
	RenewedByAgent RenewedBy = "Agent"
	// RenewedBySidecar: a native sidecar renews. Not built yet.
	RenewedBySidecar RenewedBy = "Sidecar"
	// RenewedByApplication: the application renews. Not built yet.
	RenewedByApplication RenewedBy = "Application"
	// RenewedByKubelet: nothing in the pod renews; the pod's readiness and its
	// node's own lease are the heartbeat.
	RenewedByKubelet RenewedBy = "Kubelet"
)

// SingletonJobSpec says what to run and how its lease behaves.
//
// +kubebuilder:validation:XValidation:rule="!has(self.container) || self.template.spec.containers.exists(c, c.name == self.container)",fieldPath=".container",message="spec.container names no container of spec.template: use the name of one of spec.template.spec.containers, or leave it out for the first"
// +kubebuilder:validation:XValidation:rule="self.lease.renewedBy != 'Agent' || self.template.spec.containers.exists(c, c.name == (has(self.container) ? self.container : self.template.spec.containers[0].name) && has(c.command) && c.command.size() > 0 && c.command[0].size() > 0) || (has(self.container) && !self.template.spec.containers.exists(c, c.name == self.container))",fieldPath=".template.spec.containers",message="renewedBy Agent needs a command: set command on the container that does the work, since the agent runs it and cannot know the image's entrypoint; or choose renewedBy: Kubelet"
// +kubebuilder:validation:XValidation:rule="self.lease.renewedBy != 'Kubelet' || self.standbys == 0",fieldPath=".standbys",message="standbys need somebody in the pod who waits for the lease: set standbys to 0, or choose renewedBy: Agent"
// +kubebuilder:validation:XValidation:rule="!has(self.backoffLimit) || (has(self.template.spec.restartPolicy) && self.template.spec.restartPolicy != 'Always')",fieldPath=".backoffLimit",message="backoffLimit belongs to work that completes: set restartPolicy to OnFailure or Never, or remove backoffLimit"
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec.hostPID) || !self.template.spec.hostPID",fieldPath=".template.spec.hostPID",message="hostPID would hide the start of the container's first process from the agent: remove spec.template.spec.hostPID"
// +kubebuilder:validation:XValidation:rule="self.lease.renewedBy != 'Agent' || !has(self.template.spec.shareProcessNamespace) || !self.template.spec.shareProcessNamespace",fieldPath=".template.spec.shareProcessNamespace",message="shareProcessNamespace would hide the start of the container's first process from the agent: remove spec.template.spec.shareProcessNamespace, or choose renewedBy: Kubelet"
// +kubebuilder:validation:XValidation:rule="self.lease.renewedBy != 'Agent' || !has(self.template.spec.os) || self.template.spec.os.name != 'windows'",fieldPath=".template.spec.os",message="the agent runs on Linux alone: remove spec.template.spec.os, or choose renewedBy: Kubelet"
// +kubebuilder:validation:XValidation:rule="!self.template.spec.containers.exists(c, c.name == (has(self.container) ? self.container : self.template.spec.containers[0].name) && (has(c.restartPolicy) || (has(c.restartPolicyRules) && c.restartPolicyRules.size() > 0)))",fieldPath=".template.spec.containers",message="the container that does the work restarts as spec.template.spec.restartPolicy says, or its failures could not be counted: remove restartPolicy and restartPolicyRules from that container, and set spec.template.spec.restartPolicy"
// +kubebuilder:validation:XValidation:rule="self.lease.renewedBy != 'Agent' || !self.template.spec.containers.exists(c, c.name == (has(self.container) ? self.container : self.template.spec.containers[0].name) && has(c.volumeMounts) && c.volumeMounts.exists(m, m.mountPath in ['/', '/.', '.', '..', '/.leasehold', '.leasehold'] || m.mountPath.startsWith('/.leasehold/') || m.mountPath.startsWith('.leasehold/') || m.mountPath.startsWith('//') || m.mountPath.startsWith('/./') || m.mountPath.startsWith('./') || m.mountPath.startsWith('../') || m.mountPath.contains('/../') || m.mountPath.endsWith('/..')))",fieldPath=".template.spec.containers",message="a volume mounted at / or at or below /.leasehold would hide the agent: choose another mountPath in volumeMounts of the container that does the work, written without .. in it and without // or ./ at its start"
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec.terminationGracePeriodSeconds) || (self.template.spec.terminationGracePeriodSeconds >= 0 && self.template.spec.terminationGracePeriodSeconds <= 31536000)",fieldPath=".template.spec.terminationGracePeriodSeconds",message="terminationGracePeriodSeconds is out of range: set it to 0 or more, and to at most 31536000 (a year)"
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec.nodeName) || self.template.spec.nodeName.size() == 0",fieldPath=".template.spec.nodeName",message="nodeName would pass by the scheduler, and so the gate that holds a pod back until it is granted the lease: remove spec.template.spec.nodeName, and use nodeSelector or affinity"
type SingletonJobSpec struct {
	// template is the pod that does the work. The controller adds the
	// scheduling gate, the lease label, the agent and the token's environment.
	// restartPolicy Always runs for ever; OnFailure and Never run to
	// completion.
	// +required
	Template corev1.PodTemplateSpec `json:"template,omitzero"` //nolint:kubeapilinter // never empty: crdgen requires its spec

	// container is the name of the container that does the work; the first one
	// by default.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Container string `json:"container,omitempty"`

	// lease says how the lease behaves.
	// +kubebuilder:default={renewedBy: "Agent"}
	// +optional
	Lease LeaseSpec `json:"lease,omitzero"` //nolint:kubeapilinter // never empty: renewedBy has a default

	// overlapPolicy says what an overlap of two pods would cost. Fence (the
	// default): corrupt state, but the resource checks tokens. Forbid: corrupt
	// state, and the resource cannot check; the next pod starts only when the
	// last one is proven to have ended, or an operator vouches for its end.
	// Tolerate: wasted compute; it acts exactly as Fence, and no pod starts
	// earlier for it. A change applies at once, to the open term too.
	// +kubebuilder:default=Fence
	// +optional
	OverlapPolicy OverlapPolicy `json:"overlapPolicy,omitempty"`

	// standbys is the number of running pods that wait for the lease.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	// +kubebuilder:default=0
	// +optional
	Standbys int32 `json:"standbys,omitempty"` //nolint:kubeapilinter // absent and zero mean the same

	// suspend asks the holder to stop, and grants nothing until it is false
	// again.
	// +optional
	Suspend *bool `json:"suspend,omitempty"` //nolint:kubeapilinter // as in batch/v1's Job

	// backoffLimit is how many failed runs a job that runs to completion may
	// have; one more, and it is Failed. 6 by default.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	// +optional
	BackoffLimit *int32 `json:"backoffLimit,omitempty"`
}

// LeaseSpec says how the lease behaves.
//
// +kubebuilder:validation:XValidation:rule="self.renewedBy != 'Sidecar' && self.renewedBy != 'Application'",fieldPath=".renewedBy",message="renewedBy Sidecar and Application are not available yet: choose Agent (the command runs under the agent) or Kubelet (nothing in the pod renews)"
// +kubebuilder:validation:XValidation:rule="self.renewedBy != 'Kubelet' || !has(self.durationSeconds) || self.durationSeconds >= 40",fieldPath=".durationSeconds",message="renewedBy Kubelet needs durationSeconds of 40 or more, since nodes report only every 10 seconds: raise durationSeconds, or choose renewedBy: Agent"
// +kubebuilder:validation:XValidation:rule="self.renewedBy != 'Kubelet' || !has(self.renewIntervalSeconds)",fieldPath=".renewIntervalSeconds",message="nothing renews under renewedBy Kubelet: remove renewIntervalSeconds"
// +kubebuilder:validation:XValidation:rule="self.renewedBy == 'Kubelet' || !has(self.renewIntervalSeconds) || self.renewIntervalSeconds * 2 <= (has(self.durationSeconds) ? self.durationSeconds : 15)",fieldPath=".renewIntervalSeconds",message="renewIntervalSeconds may be at most half of durationSeconds (15 by default), so that a renewal can be tried again before the holder must stop: lower renewIntervalSeconds or raise durationSeconds"
// +kubebuilder:validation:XValidation:rule="has(self.name) == has(oldSelf.name) && (!has(self.name) || self.name == oldSelf.name)",fieldPath=".name",message="lease.name cannot be added, changed or removed: make a new SingletonJob instead"
type LeaseSpec struct {
	// name of the Lease; the job's name by default. It cannot be changed.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="lease.name must be a DNS label (lower case letters, digits and '-', first and last a letter or digit), since pods carry it as a label: replace whatever else is in it"
	// +optional
	Name string `json:"name,omitempty"`

	// durationSeconds is how long the lease outlives its holder's last renewal:
	// 15 by default, 40 for renewedBy Kubelet. A change applies from the next
	// term.
	// +kubebuilder:validation:Minimum=3
	// +kubebuilder:validation:Maximum=3600
	// +optional
	DurationSeconds int32 `json:"durationSeconds,omitempty"`

	// renewIntervalSeconds is the time between two renewals; a third of
	// durationSeconds by default.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1800
	// +optional
	RenewIntervalSeconds int32 `json:"renewIntervalSeconds,omitempty"`

	// takeUpSeconds is how long a pod that was granted the lease may take to
	// start its work (scheduling, image pull, init containers) before the next
	// is tried; 300 by default.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +optional
	TakeUpSeconds int32 `json:"takeUpSeconds,omitempty"`

	// lockDelaySeconds is how long, under overlapPolicy Forbid, a force delete
	// of the holder waits beyond the duration and the grace period before it
	// counts as somebody's word that the holder has ended; 15 by default.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	// +optional
	LockDelaySeconds *int32 `json:"lockDelaySeconds,omitempty"`

	// renewedBy says who renews. Agent (the default): the agent is the parent
	// of the work's command and stops it in time. Kubelet: nothing in the pod;
	// the pod's readiness and its node's lease are the heartbeat.
	// +kubebuilder:default=Agent
	// +optional
	RenewedBy RenewedBy `json:"renewedBy,omitempty"`

	// minToken is the least token of the next grant. Set it above the marks of
	// your resources after the cluster's etcd was restored or rebuilt, and where
	// a job takes the place of a deleted one that had it. At most 2^61: tokens end
	// at 2^62, and each grant needs a greater one.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:XValidation:rule="self <= 2305843009213693952",message="minToken may be at most 2305843009213693952 (2^61), so that there is room for later tokens below 2^62: lower minToken"
	// +optional
	MinToken int64 `json:"minToken,omitempty"`
}

// SingletonJobStatus is what the controller has seen.
type SingletonJobStatus struct {
	// conditions are Held, Blocked, Complete, Failed, Suspended,
	// LeaseDurationAdequate and TokenSourceRegressed.
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status is
	// about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// holder is the pod that holds the lease.
	// +optional
	Holder *HolderStatus `json:"holder,omitempty"` //nolint:kubeapilinter // nobody holds the lease while it is nil

	// standbys is the number of running pods that wait for the lease.
	// +optional
	Standbys int32 `json:"standbys,omitempty"`

	// transitions is the number of grants so far.
	// +optional
	Transitions int64 `json:"transitions,omitempty"`

	// tokenFloor is at or above every token that was granted above the observed
	// resourceVersion (minToken). It is recorded before such a grant, so that a
	// re-created Lease starts above it.
	// +optional
	TokenFloor int64 `json:"tokenFloor,omitempty"`

	// longestDurationSeconds is the longest duration that a term may have been
	// granted with. It is recorded before the Lease gets that duration, so that a
	// re-created Lease waits for long enough.
	// +optional
	LongestDurationSeconds int32 `json:"longestDurationSeconds,omitempty"`

	// failed is the number of runs that have failed.
	// +optional
	Failed int32 `json:"failed,omitempty"`

	// restarts are the restarts in place, of pods with active ordinals, that were
	// looked at and are among failed. Only where the kubelet renews: otherwise each
	// run is a term, and the terms are counted.
	// +listType=map
	// +listMapKey=pod
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Restarts []PodRestarts `json:"restarts,omitempty"`

	// lastFailureTime is when the controller saw the latest failed run. The
	// next pod is made only after a back-off from it.
	// +optional
	LastFailureTime metav1.Time `json:"lastFailureTime,omitzero"`

	// nextOrdinal is the ordinal of the next pod's name. An ordinal is reserved
	// here before its pod is created.
	// +optional
	NextOrdinal int32 `json:"nextOrdinal,omitempty"`

	// activeOrdinals are the ordinals whose pods exist or are about to.
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +optional
	ActiveOrdinals []int32 `json:"activeOrdinals,omitempty"`

	// history is what came of the latest terms, newest first.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	// +optional
	History []TermStatus `json:"history,omitempty"`
}

// PodRestarts counts the restarts of a pod's containers.
type PodRestarts struct {
	// pod is the name of the pod.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Pod string `json:"pod,omitempty"`
	// uid is the UID of the pod.
	// +required
	UID types.UID `json:"uid,omitempty"` //nolint:kubeapilinter // bounds do not apply to types.UID
	// count is how many restarts there were.
	// +kubebuilder:validation:Minimum=1
	// +required
	Count int32 `json:"count,omitempty"`
}

// HolderStatus is the pod that holds the lease.
type HolderStatus struct {
	// pod is the name of the pod.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Pod string `json:"pod,omitempty"`
	// uid is the UID of the pod.
	// +required
	UID types.UID `json:"uid,omitempty"` //nolint:kubeapilinter // bounds do not apply to types.UID
	// node is where the pod runs, once that is known.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Node string `json:"node,omitempty"`
	// token is the fencing token of the term.
	// +kubebuilder:validation:Minimum=1
	// +required
	Token int64 `json:"token,omitempty"`
	// acquireTime is when the lease was granted.
	// +optional
	AcquireTime metav1.MicroTime `json:"acquireTime,omitzero"`
	// started is whether the holder has confirmed the grant, after which its
	// work may be running.
	// +optional
	Started bool `json:"started,omitempty"` //nolint:kubeapilinter // a term has started or has not
}

// TermStatus is what came of a term.
type TermStatus struct {
	// token is the fencing token of the term.
	// +kubebuilder:validation:Minimum=1
	// +required
	Token int64 `json:"token,omitempty"`
	// pod is the name of the pod that held the lease.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Pod string `json:"pod,omitempty"`
	// uid is the UID of the pod.
	// +required
	UID types.UID `json:"uid,omitempty"` //nolint:kubeapilinter // bounds do not apply to types.UID
	// reason says how the term ended: an Outcome.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +required
	Reason string `json:"reason,omitempty"`
	// endTime is when the controller saw the end of the term.
	// +optional
	EndTime metav1.Time `json:"endTime,omitzero"`
}
