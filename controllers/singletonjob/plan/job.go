// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// What a job's spec means, with its defaults. The API server fills some of them
// in, but not for jobs that were stored before a default existed.

// LeaseName is the name of the job's Lease.
func LeaseName(job *v1alpha1.SingletonJob) string {
	if job.Spec.Lease.Name != "" {
		return job.Spec.Lease.Name
	}
	return job.Name
}

// PodName is the name of the pod with an ordinal. It depends on nothing else,
// so that two managers who act on the same reservation make the same pod.
func PodName(job *v1alpha1.SingletonJob, ordinal int32) string {
	return fmt.Sprintf("%s-%d", job.Name, ordinal)
}

// ordinalOf reads the ordinal of a pod's name; -1: PodName never made it.
func ordinalOf(job *v1alpha1.SingletonJob, name string) int32 {
	digits, ok := strings.CutPrefix(name, job.Name+"-")
	n, err := strconv.ParseInt(digits, 10, 32)
	if !ok || err != nil || PodName(job, int32(n)) != name {
		return -1
	}
	return int32(n)
}

// RenewedBy is who renews.
func RenewedBy(job *v1alpha1.SingletonJob) v1alpha1.RenewedBy {
	if job.Spec.Lease.RenewedBy == "" {
		return v1alpha1.RenewedByAgent
	}
	return job.Spec.Lease.RenewedBy
}

// RestartPolicy is the restart policy of the job's pods.
func RestartPolicy(job *v1alpha1.SingletonJob) corev1.RestartPolicy {
	if policy := job.Spec.Template.Spec.RestartPolicy; policy != "" {
		return policy
	}
	return corev1.RestartPolicyAlways
}

// runsToCompletion reports whether success of the work ends the job.
func runsToCompletion(job *v1alpha1.SingletonJob) bool {
	return RestartPolicy(job) != corev1.RestartPolicyAlways
}

// gated reports whether new pods get our scheduling gate. Where standbys are
// wanted, pods run and wait instead.
func gated(job *v1alpha1.SingletonJob) bool { return job.Spec.Standbys == 0 }

// Finished reports whether the job is over, for good.
func Finished(job *v1alpha1.SingletonJob) bool {
	return meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionComplete) ||
		meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionFailed)
}

// Open reports whether the lease of the job may be open: whether anything may
// be granted.
func Open(job *v1alpha1.SingletonJob) bool {
	return job.DeletionTimestamp == nil && !suspended(job) && !Finished(job)
}

func suspended(job *v1alpha1.SingletonJob) bool { return ptr.Deref(job.Spec.Suspend, false) }

// LeaseConfig is how the next terms of the job's Lease behave. The recorded
// token floor is always among it: the Lease has an owner that records.
func LeaseConfig(job *v1alpha1.SingletonJob, floor int64) lease.Config {
	spec := job.Spec.Lease
	config := lease.Config{
		Duration:       seconds(spec.DurationSeconds, lease.DefaultDuration(RenewedBy(job))),
		TakeUp:         seconds(spec.TakeUpSeconds, lease.DefaultTakeUp),
		LockDelay:      lease.DefaultLockDelay,
		OverlapPolicy:  job.Spec.OverlapPolicy,
		RenewedBy:      RenewedBy(job),
		MinToken:       spec.MinToken,
		TokenFloor:     floor,
		CandidateOwner: string(job.UID),
		CloseOnSuccess: runsToCompletion(job),
	}
	if config.OverlapPolicy == "" {
		config.OverlapPolicy = v1alpha1.OverlapFence
	}
	if spec.LockDelaySeconds != nil {
		config.LockDelay = time.Duration(*spec.LockDelaySeconds) * time.Second
	}
	third := (config.Duration / 3).Truncate(time.Second)
	config.RenewInterval = seconds(spec.RenewIntervalSeconds, max(third, time.Second))
	return config
}

func seconds(n int32, absent time.Duration) time.Duration {
	if n == 0 {
		return absent
	}
	return time.Duration(n) * time.Second
}

// backoff is the pause after the latest failed run.
func backoff(job *v1alpha1.SingletonJob, failed int32) time.Duration {
	if !runsToCompletion(job) {
		return firstBackoff // A pod that its node refused, at most every so often.
	}
	if failed > 10 {
		return maxBackoff
	}
	return min(firstBackoff<<max(failed-1, 0), maxBackoff)
}

func backoffLimit(job *v1alpha1.SingletonJob) int32 {
	return ptr.Deref(job.Spec.BackoffLimit, defaultBackoffLimit)
}

// holderParts takes <podName>_<podUID> apart. Neither part has an underscore.
func holderParts(holder string) (name string, uid types.UID, ok bool) {
	name, id, ok := strings.Cut(holder, "_")
	return name, types.UID(id), ok && name != "" && id != ""
}
