// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package text fits what is said to people into the fields that carry it.
package text

import "strings"

// MaxNote is the longest note that the events API takes, in bytes.
const MaxNote = 1024

// ellipsis stands for what was cut off.
const ellipsis = "…"

// Cut returns s, cut at the end of a rune and with an ellipsis where it is
// longer than limit bytes; with it, it is no longer than limit. A limit that
// has no room for the ellipsis gives an empty text.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	if limit < len(ellipsis) {
		return ""
	}
	return strings.ToValidUTF8(s[:limit-len(ellipsis)], "") + ellipsis
}
