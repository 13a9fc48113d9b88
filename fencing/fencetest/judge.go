// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"fmt"

	"leasehold.dev/fencing"
)

// Takeover is what a new holder saw: it raised the mark to Claim, and then read
// a journal of Length entries.
type Takeover struct {
	Claim  fencing.Claim
	Length int
}

// History is what the holders of a run know, for Judge to compare with the
// journal.
type History struct {
	Issuer    string
	Takeovers []Takeover
	Accepted  []string // nonces of writes that were acknowledged
	Refused   []string // nonces of writes that were not done
}

// Judge returns what is wrong with a journal and a final mark, given what the
// holders know; nothing if the store kept every promise:
//
//   - no entry of an older token, or of another holder with the same token,
//     comes after what a new holder read;
//   - a write is in the journal once if it was acknowledged, and not at all if
//     it was refused;
//   - the mark is the greatest claim that was raised.
func Judge(journal []Entry, final fencing.Mark, h History) []string {
	var wrong []string
	for _, t := range h.Takeovers {
		wrong = append(wrong, lateWrites(journal, t)...)
	}
	wrong = append(wrong, nonceFaults(journal, h)...)
	if greatest := h.greatest(); final != greatest {
		wrong = append(wrong, fmt.Sprintf("the final mark is %v, and the greatest that was raised is %v", final, greatest))
	}
	return wrong
}

func lateWrites(journal []Entry, t Takeover) []string {
	if t.Length > len(journal) {
		return []string{fmt.Sprintf("%v read %d entries, of which only %d are left", t.Claim, t.Length, len(journal))}
	}
	var wrong []string
	for i, e := range journal[t.Length:] {
		if e.Token < t.Claim.Token || (e.Token == t.Claim.Token && e.Holder != t.Claim.Holder) {
			wrong = append(wrong, fmt.Sprintf("entry %d, write %s by token %d of %q, came after %v had raised and read %d entries",
				t.Length+i, e.Nonce, e.Token, e.Holder, t.Claim, t.Length))
		}
	}
	return wrong
}

func nonceFaults(journal []Entry, h History) []string {
	times := make(map[string]int, len(journal))
	for _, e := range journal {
		times[e.Nonce]++
	}
	var wrong []string
	for _, nonce := range h.Accepted {
		if times[nonce] != 1 {
			wrong = append(wrong, fmt.Sprintf("write %s was acknowledged and is in the journal %d times", nonce, times[nonce]))
		}
	}
	for _, nonce := range h.Refused {
		if times[nonce] != 0 {
			wrong = append(wrong, fmt.Sprintf("write %s was refused and is in the journal %d times", nonce, times[nonce]))
		}
	}
	return wrong
}

func (h History) greatest() fencing.Mark {
	m := fencing.Mark{Issuer: h.Issuer}
	for _, t := range h.Takeovers {
		if t.Claim.Token > m.Token {
			m = fencing.Mark(t.Claim)
		}
	}
	return m
}
