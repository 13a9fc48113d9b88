// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cgroup gathers the processes of a cluster under one name, so that all of
// them can be found, frozen and ended, and no others. It works with both versions of
// control groups; of the first it uses the freezer hierarchy.
package cgroup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"leasehold.dev/test/cluster/internal/wait"
)

// System is where this machine's control groups are mounted.
type System struct {
	// Freezer is the hierarchy that freezes, and by which processes are found.
	Freezer string
	// All are the mount points of every hierarchy.
	All []string
	// V1 tells which kind the freezer is.
	V1 bool
}

// Detect finds the hierarchies in a mountinfo file, such as /proc/self/mountinfo.
func Detect(mountinfo string) (*System, error) {
	s := &System{}
	unified := ""
	for line := range strings.Lines(mountinfo) {
		before, after, found := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !found || len(fields) < 5 || len(kind) < 3 {
			continue
		}
		switch kind[0] {
		case "cgroup":
			s.All = append(s.All, fields[4])
			if hasOption(kind[2], "freezer") {
				s.Freezer, s.V1 = fields[4], true
			}
		case "cgroup2":
			s.All = append(s.All, fields[4])
			unified = fields[4]
		}
	}
	if s.Freezer == "" {
		s.Freezer = unified
	}
	if s.Freezer == "" {
		return nil, errors.New("no control groups are mounted: mount cgroup2 at /sys/fs/cgroup")
	}
	return s, nil
}

func hasOption(options, name string) bool {
	for option := range strings.SplitSeq(options, ",") {
		if option == name {
			return true
		}
	}
	return false
}

// Make makes a group in every hierarchy and returns the files that processes join it by.
func (s *System) Make(group string) ([]string, error) {
	var joins []string
	for _, hierarchy := range s.All {
		dir := filepath.Join(hierarchy, group)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("control group: %w", err)
		}
		if err := inheritSets(hierarchy, group); err != nil {
			return nil, err
		}
		joins = append(joins, filepath.Join(dir, "cgroup.procs"))
	}
	return joins, nil
}

// inheritSets gives a new group of version 1 the processors and memory of the one
// above it, without which nobody may join it.
func inheritSets(hierarchy, group string) error {
	parent := hierarchy
	for part := range strings.SplitSeq(strings.Trim(group, "/"), "/") {
		dir := filepath.Join(parent, part)
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			have, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil || len(bytes.TrimSpace(have)) > 0 {
				continue
			}
			value, err := os.ReadFile(filepath.Join(parent, file))
			if err != nil || len(bytes.TrimSpace(value)) == 0 {
				continue // version 2, where empty means as above
			}
			if err := os.WriteFile(filepath.Join(dir, file), value, 0o644); err != nil {
				return fmt.Errorf("control group: %w", err)
			}
		}
		parent = dir
	}
	return nil
}

// Join moves a process into a group.
func (s *System) Join(group string, pid int) error {
	joins, err := s.Make(group)
	if err != nil {
		return err
	}
	for _, file := range joins {
		if err := os.WriteFile(file, []byte(strconv.Itoa(pid)), 0o644); err != nil {
			return fmt.Errorf("join control group: %w", err)
		}
	}
	return nil
}

// Of returns the group of a process, from the text of its /proc/<pid>/cgroup.
func (s *System) Of(text string) (string, error) {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if s.V1 && hasOption(parts[1], "freezer") || !s.V1 && parts[0] == "0" {
			return parts[2], nil
		}
	}
	return "", errors.New("process is in no group of the freezer")
}

// Freeze stops every process of a group and the groups below it, and returns once
// all of them stand still.
func (s *System) Freeze(ctx context.Context, group string) error {
	if s.V1 {
		return s.set(ctx, group, "freezer.state", "FROZEN", "freezer.state", "FROZEN")
	}
	return s.set(ctx, group, "cgroup.freeze", "1", "cgroup.events", "frozen 1")
}

// Thaw lets them run on.
func (s *System) Thaw(ctx context.Context, group string) error {
	if s.V1 {
		return s.set(ctx, group, "freezer.state", "THAWED", "freezer.state", "THAWED")
	}
	return s.set(ctx, group, "cgroup.freeze", "0", "cgroup.events", "frozen 0")
}

func (s *System) set(ctx context.Context, group, file, value, reportFile, report string) error {
	dir := filepath.Join(s.Freezer, group)
	return wait.Within(ctx, 10*time.Second, "group "+group+" to become "+report, func() error {
		// Written each time: a process forked meanwhile can keep version 1 from finishing.
		if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0o644); err != nil {
			return fmt.Errorf("freezer: %w", err)
		}
		data, err := os.ReadFile(filepath.Join(dir, reportFile))
		if err != nil {
			return fmt.Errorf("freezer: %w", err)
		}
		if !strings.Contains(string(data), report) {
			return fmt.Errorf("freezer says %q", bytes.TrimSpace(data))
		}
		return nil
	})
}

// End kills every process of a group and of the groups below it, frozen ones too,
// and removes the groups from every hierarchy.
func (s *System) End(ctx context.Context, group string) error {
	top := filepath.Join(s.Freezer, group)
	err := wait.Within(ctx, 20*time.Second, "end of all processes of "+group, func() error {
		s.thawAll(top)
		return killAll(top)
	})
	if err != nil {
		return err
	}
	return wait.Within(ctx, 10*time.Second, "removal of groups of "+group, func() error {
		var errs []error
		for _, hierarchy := range s.All {
			errs = append(errs, removeTree(filepath.Join(hierarchy, group)))
		}
		return errors.Join(errs...)
	})
}

// thawAll thaws from the top down, as a group below a frozen one stays frozen.
func (s *System) thawAll(top string) {
	file, value := "cgroup.freeze", "0"
	if s.V1 {
		file, value = "freezer.state", "THAWED"
	}
	for _, dir := range tree(top) {
		_ = os.WriteFile(filepath.Join(dir, file), []byte(value), 0o644)
	}
}

// killAll returns an error while there was anybody left to kill.
func killAll(top string) error {
	left := 0
	for _, dir := range tree(top) {
		for _, pid := range members(dir) {
			left++
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
	}
	if left > 0 {
		return fmt.Errorf("%d processes are left", left)
	}
	return nil
}

func members(dir string) []int {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil
	}
	var pids []int
	for _, field := range strings.Fields(string(data)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// tree lists a group and all below it, parents first.
func tree(top string) []string {
	var dirs []string
	_ = filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, name)
		}
		return nil
	})
	return dirs
}

func removeTree(top string) error {
	dirs := tree(top)
	for i := len(dirs) - 1; i >= 0; i-- {
		if err := os.Remove(dirs[i]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("control group: %w", err)
		}
	}
	return nil
}
