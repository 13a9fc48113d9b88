// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"os"
	"path/filepath"
	"testing"
)

const mountsV1 = `30 24 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
32 30 0:28 / /sys/fs/cgroup/freezer rw,relatime shared:9 - cgroup cgroup rw,freezer
33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
`

const mountsV2 = `33 30 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate
`

func TestDetect(t *testing.T) {
	s, err := Detect(mountsV1)
	if err != nil {
		t.Fatal(err)
	}
	if !s.V1 || s.Freezer != "/sys/fs/cgroup/freezer" || len(s.All) != 3 {
		t.Errorf("version 1: got %+v", s)
	}
	if s, err = Detect(mountsV2); err != nil || s.V1 || s.Freezer != "/sys/fs/cgroup" {
		t.Errorf("version 2: got %+v, %v", s, err)
	}
	if _, err := Detect("33 30 0:29 / / rw - ext4 /dev/x rw\n"); err == nil {
		t.Error("no control groups: want an error")
	}
}

func TestOf(t *testing.T) {
	text := "9:name=systemd:/a\n6:freezer:/b/c\n0::/d\n"
	for v1, want := range map[bool]string{true: "/b/c", false: "/d"} {
		if got, err := (&System{V1: v1}).Of(text); err != nil || got != want {
			t.Errorf("version 1 %v: got %q, %v; want %q", v1, got, err, want)
		}
	}
	if _, err := (&System{V1: true}).Of("0::/d\n"); err == nil {
		t.Error("no freezer: want an error")
	}
}

func TestNewGroupsInheritProcessorSets(t *testing.T) {
	top := t.TempDir()
	if err := os.WriteFile(filepath.Join(top, "cpuset.cpus"), []byte("0-1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"a", "a/b"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(top, dir, "cpuset.cpus"), []byte("\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := inheritSets(top, "a/b"); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"a", "a/b"} {
		if got, _ := os.ReadFile(filepath.Join(top, dir, "cpuset.cpus")); string(got) != "0-1\n" {
			t.Errorf("set of %s: got %q", dir, got)
		}
	}
}

func TestRemoveTree(t *testing.T) {
	top := filepath.Join(t.TempDir(), "group")
	if err := os.MkdirAll(filepath.Join(top, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := removeTree(top); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(top); err == nil {
		t.Error("group is still there")
	}
}
