// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"os"
	"strings"
)

// birth tells one use of a process number from the next: the boot, and the moment within it.
func birth(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", fmt.Errorf("process %d: %w", pid, err)
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	started, err := startOf(string(stat))
	if err != nil {
		return "", fmt.Errorf("process %d: %w", pid, err)
	}
	return strings.TrimSpace(string(boot)) + "/" + started, nil
}

// startOf reads the start time out of a stat line, whose second field, the name of
// the program in parentheses, may itself hold spaces and parentheses.
func startOf(stat string) (string, error) {
	const state, starttime = 0, 19 // counted after the name
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) <= starttime {
		return "", fmt.Errorf("stat line has %d fields after the name, want more than %d", len(fields), starttime)
	}
	if fields[state] == "Z" || fields[state] == "X" {
		return "", ErrGone
	}
	return fields[starttime], nil
}
