// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package singletonjob

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/controllers/singletonjob/plan"
)

const (
	// defaultGrace is a pod's grace period where the template sets none.
	defaultGrace = 30
	// releaseGrace is added to it under an agent, which stops the work within
	// the template's grace and then still has to release the lease.
	releaseGrace = 5
	// leastGrace stands for less than that under an agent, which takes no 0. Nor
	// would a release fit into no time.
	leastGrace = 1
	// revisionLength is enough to tell the revisions of one job apart.
	revisionLength = 16
	// ownPrefix is of labels and annotations that only Leasehold writes.
	ownPrefix = "leasehold.dev/"
)

// podMaker makes a job's pods. It is pure.
type podMaker struct {
	agentImage string
	clusterUID string
}

// revision is the hash of what the user wrote about the pod. The agent's image
// is not in it: an upgrade of the manager must not restart every singleton.
func revision(job *v1alpha1.SingletonJob) (string, error) {
	raw, err := json.Marshal(struct {
		Template  corev1.PodTemplateSpec
		Container string
		RenewedBy v1alpha1.RenewedBy
	}{job.Spec.Template, job.Spec.Container, plan.RenewedBy(job)})
	if err != nil {
		return "", fmt.Errorf("hash template: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])[:revisionLength], nil
}

// pod builds the pod of an ordinal.
func (m podMaker) pod(job *v1alpha1.SingletonJob, a plan.CreatePod, revision string) *corev1.Pod {
	template := job.Spec.Template.DeepCopy()
	pod := &corev1.Pod{Spec: template.Spec}
	pod.Name, pod.Namespace = plan.PodName(job, a.Ordinal), job.Namespace
	pod.Labels = foreignKeys(template.Labels)
	pod.Labels[v1alpha1.LabelLease] = plan.LeaseName(job)
	pod.Labels[v1alpha1.LabelJob] = job.Name
	pod.Annotations = foreignKeys(template.Annotations)
	pod.Annotations[v1alpha1.AnnotationRevision] = revision
	pod.Finalizers = append(slices.Clone(template.Finalizers), v1alpha1.FinalizerOutcome)
	pod.OwnerReferences = []metav1.OwnerReference{*ownerReference(job)}
	pod.Spec.RestartPolicy = plan.RestartPolicy(job)
	setGate(&pod.Spec, a.Gated)
	spread(&pod.Spec, job)

	work := workContainer(job, &pod.Spec)
	m.setEnv(job, work)
	if plan.RenewedBy(job) == v1alpha1.RenewedByAgent {
		m.addAgent(&pod.Spec, work)
	}
	return pod
}

// foreignKeys copies the keys that are not Leasehold's: a template must not be
// able to give its pods a token.
func foreignKeys(in map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, in)
	maps.DeleteFunc(out, func(key, _ string) bool { return strings.HasPrefix(key, ownPrefix) })
	return out
}

// ownerReference makes the job the controller of what is made for it.
func ownerReference(job *v1alpha1.SingletonJob) *metav1.OwnerReference {
	return metav1.NewControllerRef(job, v1alpha1.GroupVersion.WithKind(kind))
}

// setGate puts our gate last, or takes one from the template away.
func setGate(spec *corev1.PodSpec, gated bool) {
	spec.SchedulingGates = slices.DeleteFunc(spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool {
		return g.Name == v1alpha1.SchedulingGate
	})
	if gated {
		spec.SchedulingGates = append(spec.SchedulingGates, corev1.PodSchedulingGate{Name: v1alpha1.SchedulingGate})
	}
}

// workContainer is the container that does the work. Validation has seen to it
// that there is one.
func workContainer(job *v1alpha1.SingletonJob, spec *corev1.PodSpec) *corev1.Container {
	i := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == job.Spec.Container })
	return &spec.Containers[max(i, 0)]
}

// setEnv puts the contract's variables first, so that the user's may refer to
// them, and in place of any of the same name: inherited values would be lies.
func (m podMaker) setEnv(job *v1alpha1.SingletonJob, work *corev1.Container) {
	issuer := strings.Join([]string{m.clusterUID, job.Namespace, plan.LeaseName(job)}, "/")
	env := []corev1.EnvVar{
		fieldEnv(v1alpha1.EnvToken, "metadata.annotations['"+v1alpha1.AnnotationToken+"']"),
		fieldEnv(v1alpha1.EnvPodName, "metadata.name"),
		fieldEnv(v1alpha1.EnvPodUID, "metadata.uid"),
		{Name: v1alpha1.EnvHolder, Value: "$(" + v1alpha1.EnvPodName + ")_$(" + v1alpha1.EnvPodUID + ")"},
		{Name: v1alpha1.EnvIssuer, Value: issuer},
		{Name: v1alpha1.EnvLeaseName, Value: plan.LeaseName(job)},
		{Name: v1alpha1.EnvLeaseNamespace, Value: job.Namespace},
		{Name: v1alpha1.EnvContainer, Value: work.Name},
	}
	work.Env = slices.Concat(env, slices.DeleteFunc(work.Env, func(e corev1.EnvVar) bool {
		return slices.ContainsFunc(env, func(own corev1.EnvVar) bool { return own.Name == e.Name })
	}))
}

func fieldEnv(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path},
	}}
}

// addAgent makes the agent the parent of the work's command: its image is
// mounted, read-only, and the command runs under it.
func (m podMaker) addAgent(spec *corev1.PodSpec, work *corev1.Container) {
	grace := max(ptr.Deref(spec.TerminationGracePeriodSeconds, defaultGrace), leastGrace)
	spec.TerminationGracePeriodSeconds = ptr.To(grace + releaseGrace)
	spec.AutomountServiceAccountToken = ptr.To(true)

	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == v1alpha1.AgentVolume })
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: v1alpha1.AgentVolume, VolumeSource: corev1.VolumeSource{
		Image: &corev1.ImageVolumeSource{Reference: m.agentImage, PullPolicy: corev1.PullIfNotPresent},
	}})
	work.VolumeMounts = slices.DeleteFunc(work.VolumeMounts, func(v corev1.VolumeMount) bool {
		return v.Name == v1alpha1.AgentVolume || v.MountPath == v1alpha1.AgentMountPath
	})
	work.VolumeMounts = append(work.VolumeMounts, corev1.VolumeMount{
		Name: v1alpha1.AgentVolume, MountPath: v1alpha1.AgentMountPath, ReadOnly: true,
	})

	command := []string{v1alpha1.AgentPath, "run", fmt.Sprintf("--stop-grace=%ds", grace)}
	if path := work.TerminationMessagePath; path != "" && path != corev1.TerminationMessagePathDefault {
		command = append(command, "--termination-message-path="+path)
	}
	work.Command = append(append(command, "--"), work.Command...)
}
