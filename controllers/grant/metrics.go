// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var terms = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "leasehold_lease_transitions_total",
	Help: "Grants, withdrawals and ends of terms that this manager wrote, by event (Granted, Withdrawn, TermEnded) and basis (Release, Lapse, Death, Vouching, Withdraw).",
}, []string{"event", "basis"})

func init() { metrics.Registry.MustRegister(terms) }
