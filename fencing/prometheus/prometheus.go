// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package prometheus counts what guards do.
//
//	observer, err := prometheus.New(registry)
//	guard := fencing.Observed(postgres.New(pool, "orders"), "orders", observer)
//
// It exports
//
//	leasehold_fencing_operations_total{resource, verb, result}
//	leasehold_fencing_raise_seconds{resource, result}
//
// where result is "accepted", the class of a refusal ("fenced", "not_raised",
// "behind", "foreign", "not_armed", "invalid"), "retry", "unknown", or "other".
// A resource is what the caller named: keep their number small.
//
// What is worth an alert: any "behind" or "foreign", since holders then cannot
// work until somebody acts; "not_raised", which outside of a start means that
// the store has lost the mark; and raises that take long, since a holder is then
// frozen in the middle of a transaction. A few "fenced" at a hand-over are the
// fence at work.
package prometheus

import (
	"errors"

	client "github.com/prometheus/client_golang/prometheus"

	"leasehold.dev/fencing"
)

// raiseBuckets, in seconds, go from a round trip to a lease's duration and on.
var raiseBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 30, 60}

// Observer is a fencing.Observer.
type Observer struct {
	operations *client.CounterVec
	raises     *client.HistogramVec
}

var _ fencing.Observer = (*Observer)(nil)

// New registers the metrics and returns what keeps them. With a registerer that
// has them already, both observers count into the same metrics.
func New(r client.Registerer) (*Observer, error) {
	operations, err := register(r, client.NewCounterVec(client.CounterOpts{
		Name: "leasehold_fencing_operations_total",
		Help: "Attempts on fenced resources, by what was tried and what became of it.",
	}, []string{"resource", "verb", "result"}))
	if err != nil {
		return nil, err
	}
	raises, err := register(r, client.NewHistogramVec(client.HistogramOpts{
		Name:    "leasehold_fencing_raise_seconds",
		Help:    "How long raises of marks took, most of it waiting for writes of the holder before.",
		Buckets: raiseBuckets,
	}, []string{"resource", "result"}))
	if err != nil {
		return nil, err
	}
	return &Observer{operations: operations, raises: raises}, nil
}

func register[C client.Collector](r client.Registerer, c C) (C, error) {
	err := r.Register(c)
	if already, ok := errors.AsType[client.AlreadyRegisteredError](err); ok {
		if same, ok := already.ExistingCollector.(C); ok {
			return same, nil
		}
	}
	return c, err
}

// Observe implements fencing.Observer.
func (o *Observer) Observe(op fencing.Operation) {
	result := string(fencing.ClassOf(op.Err))
	o.operations.WithLabelValues(op.Resource, string(op.Verb), result).Inc()
	if op.Verb == fencing.VerbRaise {
		o.raises.WithLabelValues(op.Resource, result).Observe(op.Took.Seconds())
	}
}
