// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

func TestANewLeaseMustKnowWhatTheJobKnows(t *testing.T) {
	t.Parallel()
	known := func(token int64, holder string) lease.Carry {
		return lease.Carry{Token: token, Holder: holder, Transitions: 1}
	}
	holds := func(job *v1alpha1.SingletonJob) {
		job.Status.Holder = &v1alpha1.HolderStatus{Pod: "j-0", UID: "uid-j-0", Token: 7}
	}
	for name, tc := range map[string]struct {
		lease lease.Carry
		job   func(*v1alpha1.SingletonJob)
		pods  []*corev1.Pod
		want  bool
	}{
		"nothing is known, nothing is needed":     {lease.Carry{}, func(*v1alpha1.SingletonJob) {}, nil, true},
		"it carries the unfinished term":          {known(7, "j-0_uid-j-0"), holds, nil, true},
		"the unfinished term is missing":          {lease.Carry{}, holds, nil, false},
		"its token is known, but not as open":     {known(7, ""), holds, nil, false},
		"another holder is open":                  {known(7, "j-1_uid-j-1"), holds, nil, false},
		"an older term is open":                   {known(5, "j-0_uid-j-0"), holds, nil, false},
		"it stands below the recorded floor":      {known(7, ""), func(job *v1alpha1.SingletonJob) { job.Status.TokenFloor = 8 }, nil, false},
		"it stands at the recorded floor":         {known(8, ""), func(job *v1alpha1.SingletonJob) { job.Status.TokenFloor = 8 }, nil, true},
		"it waits for less than a term may last":  {known(7, ""), func(job *v1alpha1.SingletonJob) { job.Status.LongestDurationSeconds = 60 }, nil, false},
		"it waits for the longest term":           {lease.Carry{Longest: time.Minute}, func(job *v1alpha1.SingletonJob) { job.Status.LongestDurationSeconds = 60 }, nil, true},
		"it stands above the history":             {known(9, ""), func(job *v1alpha1.SingletonJob) { job.Status.History = []v1alpha1.TermStatus{{Token: 8}} }, nil, true},
		"it stands below the history":             {known(7, ""), func(job *v1alpha1.SingletonJob) { job.Status.History = []v1alpha1.TermStatus{{Token: 8}} }, nil, false},
		"a pod carries a token that it never saw": {lease.Carry{}, func(*v1alpha1.SingletonJob) {}, []*corev1.Pod{tokenPod("j-3", "12")}, false},
		"it carries that pod's term":              {known(12, "j-3_uid-j-3"), func(*v1alpha1.SingletonJob) {}, []*corev1.Pod{tokenPod("j-3", "12")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := newScene(tc.job).Job
			config := lease.Config{Duration: 15 * time.Second, RenewInterval: 5 * time.Second, TokenFloor: lease.MaxToken,
				OverlapPolicy: v1alpha1.OverlapFence, RenewedBy: v1alpha1.RenewedByAgent}
			l := lease.New(metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: job.UID, Controller: ptr.To(true)}}}, config, tc.lease)
			if got := Knows(l, job, tc.pods); got != tc.want {
				t.Errorf("knows: %t, want %t", got, tc.want)
			}
		})
	}
}

func tokenPod(name, token string) *corev1.Pod {
	p := &corev1.Pod{}
	p.Name, p.UID = name, types.UID("uid-"+name)
	p.Annotations = map[string]string{v1alpha1.AnnotationToken: token}
	return p
}
