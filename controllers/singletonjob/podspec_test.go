// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package singletonjob

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/controllers/singletonjob/plan"
)

func templateJob() *v1alpha1.SingletonJob {
	job := &v1alpha1.SingletonJob{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "work", UID: "job-uid"}}
	job.Spec.Lease.Name = "ledger"
	job.Spec.Container = "app"
	job.Spec.Template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{"team": "a", v1alpha1.LabelLease: "another"},
			Annotations: map[string]string{"note": "b", v1alpha1.AnnotationToken: "7", v1alpha1.AnnotationEndedToken: "7"},
			Finalizers:  []string{"example.com/theirs"},
		},
		Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: v1alpha1.SchedulingGate}, {Name: "example.com/theirs"}},
			Volumes:         []corev1.Volume{{Name: "data"}, {Name: v1alpha1.AgentVolume}},
			Containers: []corev1.Container{
				{Name: "proxy", Image: "proxy", Command: []string{"/proxy"}},
				{
					Name: "app", Image: "app", Command: []string{"/app", "--serve"}, Args: []string{"now"},
					Env: []corev1.EnvVar{{Name: "MINE", Value: "$(FENCING_TOKEN)"}, {Name: "FENCING_TOKEN", Value: "99"}},
					VolumeMounts: []corev1.VolumeMount{
						{Name: "data", MountPath: "/data"}, {Name: "data", MountPath: "/.leasehold"},
					},
				},
			},
		},
	}
	return job
}

// apart is the affinity of pods of one job.
func apart(job string) *corev1.Affinity {
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 100,
			PodAffinityTerm: corev1.PodAffinityTerm{
				TopologyKey:   "kubernetes.io/hostname",
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"leasehold.dev/job": job}},
			},
		}},
	}}
}

func TestPodUnderAgent(t *testing.T) {
	t.Parallel()
	job := templateJob()
	before := job.DeepCopy()
	got := podMaker{"agent-image", "cluster"}.pod(job, plan.CreatePod{Ordinal: 3, Gated: true}, "rev")
	if diff := cmp.Diff(before, job); diff != "" {
		t.Errorf("the job was changed:\n%s", diff)
	}
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}
	}
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "work-3",
			Labels:      map[string]string{"team": "a", "leasehold.dev/lease": "ledger", "leasehold.dev/job": "work"},
			Annotations: map[string]string{"note": "b", "leasehold.dev/revision": "rev"},
			Finalizers:  []string{"example.com/theirs", "leasehold.dev/outcome"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "leasehold.dev/v1alpha1", Kind: "SingletonJob", Name: "work", UID: "job-uid",
				Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
			}},
		},
		Spec: corev1.PodSpec{
			Affinity:                      apart("work"),
			RestartPolicy:                 corev1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: ptr.To[int64](35),
			AutomountServiceAccountToken:  ptr.To(true),
			SchedulingGates:               []corev1.PodSchedulingGate{{Name: "example.com/theirs"}, {Name: "leasehold.dev/lease"}},
			Volumes: []corev1.Volume{{Name: "data"}, {Name: "leasehold-agent", VolumeSource: corev1.VolumeSource{
				Image: &corev1.ImageVolumeSource{Reference: "agent-image", PullPolicy: corev1.PullIfNotPresent},
			}}},
			Containers: []corev1.Container{
				{Name: "proxy", Image: "proxy", Command: []string{"/proxy"}},
				{
					Name: "app", Image: "app",
					Command: []string{"/.leasehold/agent", "run", "--stop-grace=30s", "--", "/app", "--serve"}, Args: []string{"now"},
					Env: []corev1.EnvVar{
						{Name: "FENCING_TOKEN", ValueFrom: field("metadata.annotations['leasehold.dev/fencing-token']")},
						{Name: "LEASEHOLD_POD_NAME", ValueFrom: field("metadata.name")},
						{Name: "LEASEHOLD_POD_UID", ValueFrom: field("metadata.uid")},
						{Name: "FENCING_HOLDER", Value: "$(LEASEHOLD_POD_NAME)_$(LEASEHOLD_POD_UID)"},
						{Name: "FENCING_ISSUER", Value: "cluster/ns/ledger"},
						{Name: "LEASE_NAME", Value: "ledger"},
						{Name: "LEASE_NAMESPACE", Value: "ns"},
						{Name: "LEASEHOLD_CONTAINER", Value: "app"},
						{Name: "MINE", Value: "$(FENCING_TOKEN)"},
					},
					VolumeMounts: []corev1.VolumeMount{
						{Name: "data", MountPath: "/data"},
						{Name: "leasehold-agent", MountPath: "/.leasehold", ReadOnly: true},
					},
				},
			},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
}

func TestPodVariants(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*v1alpha1.SingletonJob)
		gated  bool
		check  func(*testing.T, corev1.PodSpec, corev1.Container)
	}{
		"grace and message path": {
			change: func(job *v1alpha1.SingletonJob) {
				job.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](600)
				job.Spec.Template.Spec.Containers[1].TerminationMessagePath = "/tmp/last-words"
			},
			check: func(t *testing.T, spec corev1.PodSpec, work corev1.Container) {
				want := []string{"/.leasehold/agent", "run", "--stop-grace=600s", "--termination-message-path=/tmp/last-words", "--", "/app", "--serve"}
				if diff := cmp.Diff(want, work.Command); diff != "" || *spec.TerminationGracePeriodSeconds != 605 {
					t.Errorf("grace %d, command:\n%s", *spec.TerminationGracePeriodSeconds, diff)
				}
			},
		},
		"no grace": {
			change: func(job *v1alpha1.SingletonJob) { job.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64) },
			check: func(t *testing.T, spec corev1.PodSpec, work corev1.Container) {
				if work.Command[2] != "--stop-grace=1s" || *spec.TerminationGracePeriodSeconds != 6 {
					t.Errorf("grace %d, command %v", *spec.TerminationGracePeriodSeconds, work.Command)
				}
			},
		},
		"the least grace": {
			change: func(job *v1alpha1.SingletonJob) {
				job.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
			},
			check: func(t *testing.T, spec corev1.PodSpec, work corev1.Container) {
				if work.Command[2] != "--stop-grace=1s" || *spec.TerminationGracePeriodSeconds != 6 {
					t.Errorf("grace %d, command %v", *spec.TerminationGracePeriodSeconds, work.Command)
				}
			},
		},
		"no grace without an agent": {
			change: func(job *v1alpha1.SingletonJob) {
				job.Spec.Lease.RenewedBy = v1alpha1.RenewedByKubelet
				job.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64)
			},
			check: func(t *testing.T, spec corev1.PodSpec, _ corev1.Container) {
				if *spec.TerminationGracePeriodSeconds != 0 {
					t.Errorf("grace %d", *spec.TerminationGracePeriodSeconds)
				}
			},
		},
		"default message path": {
			change: func(job *v1alpha1.SingletonJob) {
				job.Spec.Template.Spec.Containers[1].TerminationMessagePath = "/dev/termination-log"
			},
			check: func(t *testing.T, _ corev1.PodSpec, work corev1.Container) {
				if work.Command[3] != "--" {
					t.Errorf("command is %v", work.Command)
				}
			},
		},
		"warm": {
			change: func(*v1alpha1.SingletonJob) {},
			check: func(t *testing.T, spec corev1.PodSpec, _ corev1.Container) {
				if len(spec.SchedulingGates) != 1 {
					t.Errorf("gates are %v", spec.SchedulingGates)
				}
			},
		},
		"the first container works by default": {
			change: func(job *v1alpha1.SingletonJob) { job.Spec.Container = "" },
			check: func(t *testing.T, spec corev1.PodSpec, _ corev1.Container) {
				if spec.Containers[0].Command[0] != "/.leasehold/agent" || spec.Containers[1].Command[0] != "/app" {
					t.Errorf("containers are %v", spec.Containers)
				}
			},
		},
		"kubelet": {
			change: func(job *v1alpha1.SingletonJob) {
				job.Spec.Lease.RenewedBy = v1alpha1.RenewedByKubelet
				job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
			},
			check: func(t *testing.T, spec corev1.PodSpec, work corev1.Container) {
				if work.Command[0] != "/app" || spec.TerminationGracePeriodSeconds != nil || spec.AutomountServiceAccountToken != nil ||
					len(work.VolumeMounts) != 2 || spec.RestartPolicy != corev1.RestartPolicyNever || work.Env[0].Name != "FENCING_TOKEN" {
					t.Errorf("spec is %+v", spec)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := templateJob()
			tc.change(job)
			pod := podMaker{"agent-image", "cluster"}.pod(job, plan.CreatePod{Gated: tc.gated}, "rev")
			tc.check(t, pod.Spec, pod.Spec.Containers[1])
		})
	}
}

func TestRevision(t *testing.T) {
	t.Parallel()
	of := func(change func(*v1alpha1.SingletonJob)) string {
		job := templateJob()
		change(job)
		r, err := revision(job)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	base := of(func(*v1alpha1.SingletonJob) {})
	for name, same := range map[string]func(*v1alpha1.SingletonJob){
		"suspend":  func(job *v1alpha1.SingletonJob) { job.Spec.Suspend = ptr.To(true) },
		"standbys": func(job *v1alpha1.SingletonJob) { job.Spec.Standbys = 2 },
		"lease":    func(job *v1alpha1.SingletonJob) { job.Spec.Lease.DurationSeconds = 30 },
		"default":  func(job *v1alpha1.SingletonJob) { job.Spec.Lease.RenewedBy = v1alpha1.RenewedByAgent },
	} {
		if of(same) != base {
			t.Errorf("%s changes the revision", name)
		}
	}
	for name, other := range map[string]func(*v1alpha1.SingletonJob){
		"image":     func(job *v1alpha1.SingletonJob) { job.Spec.Template.Spec.Containers[0].Image = "other" },
		"label":     func(job *v1alpha1.SingletonJob) { job.Spec.Template.Labels["team"] = "c" },
		"container": func(job *v1alpha1.SingletonJob) { job.Spec.Container = "proxy" },
		"renewedBy": func(job *v1alpha1.SingletonJob) { job.Spec.Lease.RenewedBy = v1alpha1.RenewedByKubelet },
	} {
		if of(other) == base {
			t.Errorf("%s does not change the revision", name)
		}
	}
}

func TestAccessCoversEarlierPods(t *testing.T) {
	t.Parallel()
	job := templateJob()
	job.Spec.Template.Spec.ServiceAccountName = "new"
	old, unset := &corev1.Pod{}, &corev1.Pod{}
	old.Spec.ServiceAccountName = "old"
	var names []string
	for _, s := range accessFor(job, []*corev1.Pod{old, unset, old}).subjects {
		names = append(names, s.Name)
	}
	if diff := cmp.Diff([]string{"default", "new", "old"}, names); diff != "" {
		t.Error(diff)
	}
}
