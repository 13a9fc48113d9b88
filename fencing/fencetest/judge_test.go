// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"slices"
	"strings"
	"testing"

	"leasehold.dev/fencing"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	a, b := fencing.Claim{Issuer: "i", Token: 1, Holder: "a"}, fencing.Claim{Issuer: "i", Token: 2, Holder: "b"}
	good := History{
		Issuer:    "i",
		Takeovers: []Takeover{{a, 0}, {b, 2}},
		Accepted:  []string{"a1", "b1"}, // a2 was done, and its reply lost
		Refused:   []string{"a3"},
	}
	journal := []Entry{{1, "a", "a1"}, {1, "a", "a2"}, {2, "b", "b1"}}
	tests := []struct {
		name    string
		journal []Entry
		mark    fencing.Mark
		edit    func(*History)
		want    string // part of the one fault; "" means none
	}{
		{"every promise kept", journal, fencing.Mark(b), nil, ""},
		{"nobody raised", nil, fencing.Mark{Issuer: "i"}, func(h *History) { *h = History{Issuer: "i"} }, ""},
		{"stale write after the read", append(slices.Clone(journal), Entry{1, "a", "a4"}), fencing.Mark(b), nil, "write a4 by token 1"},
		{"same token, other holder", append(slices.Clone(journal), Entry{2, "z", "z1"}), fencing.Mark(b), nil, "write z1 by token 2"},
		{"acknowledged write lost", journal[:2], fencing.Mark(b), nil, "b1 was acknowledged and is in the journal 0 times"},
		{"written twice", append(slices.Clone(journal), journal[2]), fencing.Mark(b), nil, "b1 was acknowledged and is in the journal 2 times"},
		{"refused, yet done", append(slices.Clone(journal), Entry{2, "b", "a3"}), fencing.Mark(b), nil, "a3 was refused"},
		{"mark went back", journal, fencing.Mark(a), nil, "the final mark is token 1"},
		{"journal shrank", journal, fencing.Mark(b), func(h *History) { h.Takeovers[1].Length = 4 }, "only 3 are left"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := good
			h.Takeovers = slices.Clone(h.Takeovers)
			if tt.edit != nil {
				tt.edit(&h)
			}
			wrong := Judge(tt.journal, tt.mark, h)
			if tt.want == "" && len(wrong) == 0 {
				return
			}
			if tt.want == "" || len(wrong) != 1 || !strings.Contains(wrong[0], tt.want) {
				t.Errorf("faults %q, want one with %q", wrong, tt.want)
			}
		})
	}
}
