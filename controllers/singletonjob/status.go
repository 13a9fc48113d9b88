// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package singletonjob

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"

	"leasehold.dev/controllers/singletonjob/plan"
)

// writeStatus writes the planned status under the version of the job that was
// seen, if it says anything new, and then tells of what it changed.
func (a *applier) writeStatus(ctx context.Context, p plan.Plan) error {
	if equality.Semantic.DeepEqual(a.job.Status, p.Status) {
		return nil
	}
	a.job.Status = *p.Status.DeepCopy()
	if err := a.Client.Status().Update(ctx, a.job); err != nil {
		return changed(err, "update status")
	}
	a.current = true
	a.tell(a.job, p)
	return nil
}
