// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"leasehold.dev/api/v1alpha1"
)

type option func(*v1alpha1.SingletonJob)

// create makes a job of the probe: 6 s leases where nothing else is asked for.
func (w *world) create(name string, options ...option) *v1alpha1.SingletonJob {
	w.Helper()
	job := w.build(name, options...)
	if err := w.Client.Create(w.Context(), job); err != nil {
		w.Fatal(err)
	}
	return job
}

func (w *world) build(name string, options ...option) *v1alpha1.SingletonJob {
	job := &v1alpha1.SingletonJob{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "SingletonJob"},
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name},
	}
	job.Spec.OverlapPolicy = v1alpha1.OverlapFence
	job.Spec.Lease.RenewedBy = v1alpha1.RenewedByAgent
	job.Spec.Lease.DurationSeconds = 6
	job.Spec.Template.Spec = corev1.PodSpec{
		TerminationGracePeriodSeconds: ptr.To[int64](5),
		Containers: []corev1.Container{{
			Name: "probe", Image: probeImage, ImagePullPolicy: corev1.PullNever,
			Command: []string{"/probe", "work", "-job", w.recorded(name)},
			Env:     []corev1.EnvVar{{Name: "DATABASE_URL", Value: w.podURL}},
		}},
	}
	for _, o := range options {
		o(job)
	}
	return job
}

func duration(seconds int32) option {
	return func(j *v1alpha1.SingletonJob) { j.Spec.Lease.DurationSeconds = seconds }
}

func takeUp(seconds int32) option {
	return func(j *v1alpha1.SingletonJob) { j.Spec.Lease.TakeUpSeconds = seconds }
}

func overlap(policy v1alpha1.OverlapPolicy) option {
	return func(j *v1alpha1.SingletonJob) { j.Spec.OverlapPolicy = policy }
}

// probe adds flags of the probe.
func probe(arguments ...string) option {
	return func(j *v1alpha1.SingletonJob) {
		c := &j.Spec.Template.Spec.Containers[0]
		c.Command = append(slices.Clone(c.Command), arguments...)
	}
}

// guarded lets the work make writes that the fence judges.
func (w *world) guarded(job string) option { return probe("-guard", w.recorded(job)) }

func grace(seconds int64) option {
	return func(j *v1alpha1.SingletonJob) { j.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To(seconds) }
}

func restart(policy corev1.RestartPolicy) option {
	return func(j *v1alpha1.SingletonJob) { j.Spec.Template.Spec.RestartPolicy = policy }
}

func backoffLimit(n int32) option {
	return func(j *v1alpha1.SingletonJob) { j.Spec.BackoffLimit = ptr.To(n) }
}

// kubelet makes a job that nothing in the pod renews for.
func kubelet(j *v1alpha1.SingletonJob) {
	j.Spec.Lease.RenewedBy, j.Spec.Lease.DurationSeconds = v1alpha1.RenewedByKubelet, 40
}

// slow adds an init container that takes its time.
func slow(seconds int) option {
	return func(j *v1alpha1.SingletonJob) {
		j.Spec.Template.Spec.InitContainers = []corev1.Container{{
			Name: "slow", Image: probeImage, ImagePullPolicy: corev1.PullNever,
			Command: []string{"/probe", "sleep", fmt.Sprintf("%ds", seconds)},
		}}
	}
}

// startingOn lets pods run on a node that is for faults, and on the first node
// once that one is cordoned.
func (w *world) startingOn(node string) option {
	return func(j *v1alpha1.SingletonJob) {
		spec := &j.Spec.Template.Spec
		spec.Tolerations = []corev1.Toleration{{Key: faultTaint, Operator: corev1.TolerationOpExists}}
		on := func(names ...string) corev1.NodeSelectorTerm {
			return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: names}}}
		}
		spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{on(node, w.NodeNames()[0])}},
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
				{Weight: 1, Preference: on(node)}},
		}}
	}
}
