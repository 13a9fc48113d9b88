// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

var steps int

func title(text string, fence bool) {
	with := "with the fence"
	if !fence {
		with = "WITHOUT the fence (DEMO_FENCE=off)"
	}
	line := fmt.Sprintf("Leasehold: %s — %s", text, with)
	fmt.Printf("%s\n%s\n", line, strings.Repeat("=", len([]rune(line))))
}

func step(text string) {
	steps++
	fmt.Printf("\n%d. %s\n", steps, text)
}

func say(format string, args ...any) {
	fmt.Printf("   %s\n", fmt.Sprintf(format, args...))
}

// show prints what a real command or object said, set apart from the story.
func show(text string) {
	for line := range strings.Lines(strings.TrimSpace(text)) {
		fmt.Printf("   | %s\n", strings.TrimRight(line, "\n"))
	}
}
