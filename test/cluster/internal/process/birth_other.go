// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package process

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// birth tells one use of a process number from the next by the time of its start.
func birth(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "stat=,lstart=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return "", fmt.Errorf("process %d: %w", pid, err)
	}
	state, started, found := strings.Cut(strings.TrimSpace(string(out)), " ")
	if !found || strings.HasPrefix(state, "Z") {
		return "", ErrGone
	}
	return strings.TrimSpace(started), nil
}
