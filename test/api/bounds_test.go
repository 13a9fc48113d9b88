// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"leasehold.dev/leaderelect/lease"
)

// bounds are the least and the greatest value of each number in the spec, and
// what else must be set for these to be possible.
var bounds = map[string]struct {
	least, greatest int64
	with            []edit
}{
	"spec.standbys":                   {0, 10, nil},
	"spec.backoffLimit":               {0, 1000, []edit{{"spec.template.spec.restartPolicy", "Never"}}},
	"spec.lease.durationSeconds":      {3, 3600, nil},
	"spec.lease.renewIntervalSeconds": {1, 1800, []edit{{"spec.lease.durationSeconds", int64(3600)}}},
	"spec.lease.takeUpSeconds":        {1, 86400, nil},
	"spec.lease.lockDelaySeconds":     {0, 3600, []edit{{"spec.overlapPolicy", "Forbid"}}},
	"spec.lease.minToken":             {1, lease.MaxToken / 2, nil},
}

// TestBounds tries each number at its bounds, one beyond, zero, negative, and
// where a machine's integers end.
func TestBounds(t *testing.T) {
	t.Parallel()
	for field, b := range bounds {
		try := func(n int64) error { return tryCreate(t, append(slices.Clone(b.with), edit{field, n})...) }
		for _, n := range []int64{b.least, b.least + 1, b.greatest - 1, b.greatest} {
			if err := try(n); err != nil {
				t.Errorf("%s of %d is refused: %v", field, n, err)
			}
		}
		for _, n := range []int64{b.least - 1, 0, -1, math.MinInt32, math.MinInt64} {
			if n < b.least {
				mustRefuse(t, try(n), field, fmt.Sprintf("greater than or equal to %d", b.least))
			}
		}
		for _, n := range []int64{b.greatest + 1, math.MaxInt32, math.MaxInt64} {
			if n > b.greatest {
				mustRefuse(t, try(n), field, fmt.Sprint(b.greatest))
			}
		}
		mustRefuse(t, tryCreate(t, append(slices.Clone(b.with), edit{field, fmt.Sprint(b.least)})...), field, "must be of type integer")
	}
}

// TestEveryNumberHasBounds fails for a number in the spec that the table above
// leaves out.
func TestEveryNumberHasBounds(t *testing.T) {
	t.Parallel()
	var numbers []string
	for path, schema := range specSchemas(t) {
		if schema.Type == "integer" || schema.Type == "number" {
			numbers = append(numbers, path)
		}
	}
	slices.Sort(numbers)
	if want := slices.Sorted(maps.Keys(bounds)); !slices.Equal(numbers, want) {
		t.Errorf("the spec's numbers are %v, the table has %v: add the missing ones to it", numbers, want)
	}
}

// names are tried as the name of a job, and as that of a Lease.
func TestNames(t *testing.T) {
	t.Parallel()
	for field, c := range map[string]struct {
		longest   int
		long, bad []string
	}{
		"metadata.name": {52, []string{"at most 52 characters", "choose a shorter name"}, nil},
		"spec.lease.name": {63, []string{"spec.lease.name", "may not be more than 63"},
			[]string{"spec.lease.name", "lower case letters, digits and '-'", "replace whatever else is in it"}},
	} {
		for _, name := range []string{"a", "0", "a-b", "0a", "a--b", strings.Repeat("n", c.longest-1), strings.Repeat("n", c.longest)} {
			if err := tryCreate(t, edit{field, name}); err != nil {
				t.Errorf("%s %q is refused: %v", field, name, err)
			}
		}
		for _, length := range []int{c.longest + 1, 253} {
			mustRefuse(t, tryCreate(t, edit{field, strings.Repeat("n", length)}), c.long...)
		}
		// The server has its own word for what cannot be the name of any object.
		mustRefuse(t, tryCreate(t, edit{field, strings.Repeat("n", 254)}), field)
		for _, name := range []string{"Ledger", "ledger_writer", "-ledger", "ledger-", "ledger writer", "ledger/writer", "lédger", "-"} {
			mustRefuse(t, tryCreate(t, edit{field, name}), append([]string{field}, c.bad...)...)
		}
	}
	mustRefuse(t, tryCreate(t, edit{"metadata.name", "ledger.writer"}), "must be a DNS label", "remove dots")
	mustRefuse(t, tryCreate(t, edit{"spec.lease.name", "ledger.writer"}), "spec.lease.name", "must be a DNS label")
	mustRefuse(t, tryCreate(t, edit{"spec.lease.name", ""}), "spec.lease.name", "at least 1 chars")
	mustRefuse(t, tryCreate(t, edit{"spec.container", ""}), "spec.container", "at least 1 chars")
}
