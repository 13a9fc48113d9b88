// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package prometheus_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"leasehold.dev/fencing"
	"leasehold.dev/fencing/prometheus"
)

func TestObserver(t *testing.T) {
	t.Parallel()
	registry := client.NewPedanticRegistry()
	for range 2 { // the second joins the first
		o, err := prometheus.New(registry)
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range []fencing.Operation{
			{Resource: "orders", Verb: fencing.VerbRaise, Took: 2 * time.Second},
			{Resource: "orders", Verb: fencing.VerbWrite},
			{Resource: "orders", Verb: fencing.VerbWrite, Err: &fencing.FencedError{}},
			{Resource: "orders", Verb: fencing.VerbWrite, Err: io.EOF},
		} {
			o.Observe(op)
		}
	}
	want := `# HELP leasehold_fencing_operations_total Attempts on fenced resources, by what was tried and what became of it.
# TYPE leasehold_fencing_operations_total counter
leasehold_fencing_operations_total{resource="orders",result="accepted",verb="raise"} 2
leasehold_fencing_operations_total{resource="orders",result="accepted",verb="write"} 2
leasehold_fencing_operations_total{resource="orders",result="fenced",verb="write"} 2
leasehold_fencing_operations_total{resource="orders",result="other",verb="write"} 2
`
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "leasehold_fencing_raise_seconds" {
			var text strings.Builder
			if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(want, text.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			continue
		}
		h := f.GetMetric()[0].GetHistogram()
		if h.GetSampleCount() != 2 || h.GetSampleSum() != 4 {
			t.Errorf("raises %v, want two of two seconds", h)
		}
		return
	}
	t.Error("no raise was counted")
}

func TestNewMeetsAnotherMetric(t *testing.T) {
	t.Parallel()
	registry := client.NewRegistry()
	registry.MustRegister(client.NewCounter(client.CounterOpts{Name: "leasehold_fencing_operations_total", Help: "something else"}))
	if o, err := prometheus.New(registry); err == nil {
		t.Errorf("New = %v, want an error", o)
	}
}
