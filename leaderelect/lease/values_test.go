// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"strconv"
	"testing"
	"time"

	"leasehold.dev/api/v1alpha1"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func TestNextToken(t *testing.T) {
	for name, tc := range map[string]struct {
		observed              string
		last, minToken, floor int64
		want                  int64
		err                   error
	}{
		"the observed version":                    {"50", 40, 0, 0, 50, nil},
		"above the last token":                    {"50", 50, 0, MaxToken, 51, nil},
		"the minimum":                             {"50", 40, 70, MaxToken, 70, nil},
		"the minimum, recorded":                   {"50", 40, 70, 70, 70, nil},
		"the minimum, not recorded":               {"50", 40, 70, 69, 0, ErrNotRecorded},
		"above a raised last token, not recorded": {"50", 70, 70, 70, 0, ErrNotRecorded},
		"the version needs no record":             {"50", 40, 50, 0, 50, nil},
		"the greatest":                            {"50", MaxToken - 1, 0, MaxToken, MaxToken, nil},
		"none is left":                            {"50", MaxToken, 0, MaxToken, 0, ErrNoToken},
		"the version is too great":                {"4611686018427387905", 0, 0, MaxToken, 0, ErrNoToken},
		"the version does not fit 63 bits":        {"92233720368547758080", 0, 0, MaxToken, 0, ErrNoToken},
		"the version cannot be compared":          {"v12", 0, 0, MaxToken, 0, ErrNoToken},
		"no version":                              {"", 0, 0, MaxToken, 0, ErrNoToken},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := nextToken(tc.observed, tc.last, tc.minToken, tc.floor)
			if tc.err != nil {
				wantErr(t, err, tc.err)
			} else if err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestGrantWithoutATokenIsRefused(t *testing.T) {
	s := free(t, with(fence(), func(c *Config) { c.MinToken, c.TokenFloor = 1000, 0 }))
	_, err := s.look(0).Grant(podA, issuer, Basis{}, epoch)
	wantErr(t, err, ErrNotRecorded)
}

func TestNonceIsReadAsItWasWritten(t *testing.T) {
	for _, want := range []Nonce{
		{Container: "work", Boot: "b", Ticks: 0, Random: "r"},
		{Container: "work", Boot: "3e6ff4a6-0d3e-4dd8-93c4-1c0f0d8d8d6b", Ticks: 12345, Random: "x"},
	} {
		got, err := ParseNonce(want.String())
		if err != nil {
			t.Fatal(err)
		}
		diff(t, want, got)
	}
	for _, s := range []string{"", "unknown", "uid-a", "a.b.c", "a.b-1.", ".b-1.c", "a.-1.c", "a.b-x.c", "a.b-1.c.d"} {
		if _, err := ParseNonce(s); err == nil {
			t.Errorf("ParseNonce(%q) succeeded", s)
		}
	}
}

func TestTimingLeavesTheMarginsOfTheDesign(t *testing.T) {
	timing := Timing{Duration: 15 * time.Second, RenewInterval: 5 * time.Second}
	diff(t, []time.Duration{10 * time.Second, 11500 * time.Millisecond, 12 * time.Second, 2500 * time.Millisecond, time.Second},
		[]time.Duration{timing.Stop(), timing.Kill(), timing.Trust(), timing.RequestTimeout(), timing.RetryInterval()})
	short := Timing{Duration: 3 * time.Second, RenewInterval: 300 * time.Millisecond}
	if short.RequestTimeout() != 500*time.Millisecond || short.RetryInterval() != 100*time.Millisecond {
		t.Errorf("least: %s, %s", short.RequestTimeout(), short.RetryInterval())
	}
	for _, by := range []v1alpha1.RenewedBy{v1alpha1.RenewedByAgent, v1alpha1.RenewedByKubelet} {
		d := DefaultDuration(by)
		if err := (Timing{Duration: d, RenewInterval: d / 3}).Validate(); err != nil {
			t.Errorf("%s: %v", by, err)
		}
	}
	for _, bad := range []Timing{{2 * time.Second, time.Second}, {15 * time.Second, 0}, {15 * time.Second, 8 * time.Second}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

func TestOutcomeOfABasis(t *testing.T) {
	for basis, want := range map[Basis]v1alpha1.Outcome{
		{Kind: ByDeath, Succeeded: true}: v1alpha1.OutcomeSucceeded,
		{Kind: ByDeath}:                  v1alpha1.OutcomeDied,
		{Kind: ByVouching}:               v1alpha1.OutcomeVouched,
		{Kind: ByLapse}:                  v1alpha1.OutcomeLapsed,
	} {
		if got := basis.Outcome(); got != want {
			t.Errorf("%+v: %s, want %s", basis, got, want)
		}
	}
}
