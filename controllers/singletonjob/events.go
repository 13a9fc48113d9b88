// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package singletonjob

import (
	corev1 "k8s.io/api/core/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/controllers/singletonjob/plan"
	"leasehold.dev/internal/text"
)

const (
	reasonFailedCreate = "FailedCreate"
	actionCreate       = "CreatePod"
)

// tell records the events of a status that was just written, and counts the
// terms that it put on record.
func (r *Reconciler) tell(job *v1alpha1.SingletonJob, p plan.Plan) {
	for _, t := range p.Ended {
		termsEnded.WithLabelValues(outcomeLabel(t.Reason)).Inc()
	}
	for _, e := range p.Events {
		kind := corev1.EventTypeNormal
		if e.Warning {
			kind = corev1.EventTypeWarning
		}
		r.Recorder.Eventf(job, nil, kind, e.Reason, e.Action, "%s", text.Cut(e.Note, text.MaxNote))
	}
}

// tellCreateFailed tells of a pod that was refused (by a quota, a policy): the
// error is tried again, and nothing else would show it.
func (r *Reconciler) tellCreateFailed(job *v1alpha1.SingletonJob, pod *corev1.Pod, err error) {
	note := "Pod " + pod.Name + " was not created: " + err.Error()
	r.Recorder.Eventf(job, nil, corev1.EventTypeWarning, reasonFailedCreate, actionCreate, "%s", text.Cut(note, text.MaxNote))
}
