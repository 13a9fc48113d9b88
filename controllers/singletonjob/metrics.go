// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package singletonjob

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"leasehold.dev/api/v1alpha1"
)

var (
	termsEnded = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leasehold_singletonjob_terms_ended_total",
		Help: "Terms of SingletonJobs whose end was put on record, by reason (an outcome, or Other).",
	}, []string{"reason"})

	podsCreated = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "leasehold_singletonjob_pods_created_total",
		Help: "Pods created for SingletonJobs.",
	})
)

func init() { metrics.Registry.MustRegister(termsEnded, podsCreated) }

// outcomeLabel bounds the label's values: a holder's agent writes the outcome.
func outcomeLabel(reason string) string {
	switch v1alpha1.Outcome(reason) {
	case v1alpha1.OutcomeSucceeded, v1alpha1.OutcomeFailed, v1alpha1.OutcomeStopped, v1alpha1.OutcomeRestarted,
		v1alpha1.OutcomeWithdrawn, v1alpha1.OutcomeLapsed, v1alpha1.OutcomeDied, v1alpha1.OutcomeVouched, v1alpha1.OutcomeUnknown:
		return reason
	}
	return "Other"
}
