// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	"leasehold.dev/api/v1alpha1"
)

// Describe names what an action writes, and for which spec, so that it is known
// again in the next plan.
func Describe(job *v1alpha1.SingletonJob, a Action) string {
	return fmt.Sprintf("%s for generation %d", object(job, a), job.Generation)
}

func object(job *v1alpha1.SingletonJob, a Action) string {
	switch a := a.(type) {
	case CreatePod:
		return "create pod " + PodName(job, a.Ordinal)
	case DeletePod:
		return "delete pod " + a.Pod.Name
	case RemovePodFinalizer:
		return "release pod " + a.Pod.Name
	}
	return fmt.Sprintf("%T", a)
}
