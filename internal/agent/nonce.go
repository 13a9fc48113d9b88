// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package agent

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"

	"leasehold.dev/leaderelect/lease"
)

const (
	bootIDPath = "/proc/sys/kernel/random/boot_id"
	firstStat  = "/proc/1/stat"
	// startField is the number of the start time in a stat file, from 1.
	startField = 22
)

// origin says when the first process of this container started. Where that
// cannot be read it names a boot that never was, so that it proves nothing
// about any other start.
func origin(container string) (lease.Nonce, error) {
	n := lease.Nonce{Container: container, Boot: "unknown" + random()}
	boot, err := os.ReadFile(bootIDPath)
	if err != nil {
		return n, fmt.Errorf("identity of this boot: %w", err)
	}
	stat, err := os.ReadFile(firstStat)
	if err != nil {
		return n, fmt.Errorf("start of this container: %w", err)
	}
	ticks, err := startTicks(stat)
	if err != nil {
		return n, fmt.Errorf("start of this container: %s: %w", firstStat, err)
	}
	if id := strings.ReplaceAll(strings.TrimSpace(string(boot)), "-", ""); id != "" {
		n.Boot, n.Ticks = id, ticks
	}
	return n, nil
}

// startTicks reads the start time from a stat file. The second field, a name in
// parentheses, may contain anything.
func startTicks(stat []byte) (uint64, error) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, fmt.Errorf("want a name in parentheses, have %q", stat)
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < startField-2 {
		return 0, fmt.Errorf("want %d fields, have %q", startField, stat)
	}
	return strconv.ParseUint(string(fields[startField-3]), 10, 64)
}

// random returns 64 random bits in hexadecimal.
func random() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // It does not fail: see crypto/rand.
	return hex.EncodeToString(b[:])
}
