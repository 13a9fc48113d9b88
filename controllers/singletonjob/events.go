// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package singletonjob

import (
	corev1 "k8s.io/api/core/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/controllers/singletonjob/plan"
	"leasehold.dev/internal/text"
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
