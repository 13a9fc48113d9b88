// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// adoptOrphans makes this process the parent of its orphaned descendants, as
// the first process of a container is anyway.
func adoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent of orphaned processes: %w", err)
	}
	return nil
}

func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// left reports whether anything of the work is left while this process still
// has children: every descendant of the work is one, or becomes one.
func left(int) bool { return true }

// killDescendants kills every descendant of this process, whatever session or
// process group it is in: the work's command, what that started, and what
// outlived its parents.
func killDescendants() {
	for _, pid := range descendants(os.Getpid()) {
		killChecked(pid)
	}
}

// descendants walks the process table, parents before their children.
func descendants(root int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			children[parent(pid)] = append(children[parent(pid)], pid)
		}
	}
	found := children[root]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found
}

// killChecked kills a process that is still a descendant once it is held by a
// handle: its number may have gone to a stranger since the walk.
func killChecked(pid int) {
	p, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	defer func() { _ = p.Release() }()
	if descends(pid, os.Getpid()) {
		_ = p.Signal(syscall.SIGKILL)
	}
}

func descends(pid, root int) bool {
	for pid > 1 && pid != root {
		pid = parent(pid)
	}
	return pid == root
}

// parent reads the parent of a process; 0: it is gone, or cannot be read.
func parent(pid int) int {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, in parentheses, may contain anything.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 2 {
		return 0
	}
	ppid, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return 0
	}
	return ppid
}
