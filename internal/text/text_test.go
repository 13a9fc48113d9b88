// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestCut(t *testing.T) {
	for name, tc := range map[string]struct {
		s     string
		limit int
		want  string
	}{
		"short":                      {"held", 4, "held"},
		"long":                       {"held by", 6, "hel…"},
		"in the middle of a rune":    {"aé✓✓✓", 7, "aé…"},
		"no room, even for the dots": {"held", 2, ""},
		"room for nothing else":      {"held", 3, "…"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Cut(tc.s, tc.limit); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestACutTextFitsIsValidAndBeginsAsItDid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, limit := rapid.String().Draw(t, "text"), rapid.IntRange(3, 40).Draw(t, "limit")
		got := Cut(s, limit)
		if len(got) > limit || !utf8.ValidString(got) || !strings.HasPrefix(s, strings.TrimSuffix(got, ellipsis)) {
			t.Fatalf("Cut(%q, %d) = %q", s, limit, got)
		}
	})
}

// The naive cut, which the events API refuses.
func TestTheNaiveCutIsNotValid(t *testing.T) {
	if naive := "é"[:1]; utf8.ValidString(naive) {
		t.Error("the control is no control")
	}
}
