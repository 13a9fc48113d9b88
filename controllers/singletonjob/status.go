// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package singletonjob

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/controllers/singletonjob/plan"
	"leasehold.dev/internal/refusal"
	"leasehold.dev/internal/text"
)

// writeStatus writes the planned status under the version of the job that was
// seen, if it says anything new, and then tells of what it changed.
func (a *applier) writeStatus(ctx context.Context, p plan.Plan) error {
	if equality.Semantic.DeepEqual(a.job.Status, p.Status) {
		return nil
	}
	a.job.Status = *p.Status.DeepCopy()
	if err := a.Client.Status().Update(ctx, a.job); err != nil {
		if refusal.Is(err) { // No condition can say it.
			a.Recorder.Eventf(a.job, nil, corev1.EventTypeWarning, v1alpha1.BlockedWriteRefused, plan.ActionWait, "%s",
				text.Cut("The API server refuses Leasehold's manager to write the status: "+err.Error(), text.MaxNote))
		}
		return changed(err, "update status")
	}
	a.current = true
	a.tell(a.job, p)
	return nil
}
