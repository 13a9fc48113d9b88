// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"leasehold.dev/test/cluster/internal/cgroup"
)

// root is where the node's root directory is put together: the one place that is
// not shown to the node itself, so that no mount appears twice.
const root = "/tmp"

// layOut builds the node's root directory and makes it the root of the mount namespace.
func layOut(data, keep, group string) error {
	// First of all nothing done here may reach the host.
	if err := mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE); err != nil {
		return err
	}
	// Held open, since they may lie below a directory that is covered from here on.
	dataAt, err := hold(data)
	if err != nil {
		return err
	}
	keepAt, err := hold(keep)
	if err != nil {
		return err
	}
	steps := []func() error{
		func() error { return mount("tmpfs", root, "tmpfs", 0) },
		takeOver,
		func() error { return ownDirectories(dataAt) },
		func() error { return show(keepAt, filepath.Join(root, keep)) },
		func() error { return ownGroups(group) },
		switchTo,
		pretendKernelSettings,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// hold returns a name by which the directory can be reached whatever is mounted over it.
func hold(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("directory of node: %w", err)
	}
	fd, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("directory of node %s: %w", dir, err)
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), nil
}

// show binds a directory unless it is to be seen there already.
func show(source, target string) error {
	if _, err := os.Stat(target); err == nil {
		return nil
	}
	return bind(source, target)
}

// own are the directories of the root that a node does not share with the host.
var own = map[string]bool{"var": true, "run": true, "tmp": true}

// takeOver shows all other directories of the host.
func takeOver() error {
	entries, err := os.ReadDir("/")
	if err != nil {
		return fmt.Errorf("root of host: %w", err)
	}
	for _, entry := range entries {
		name, target := "/"+entry.Name(), filepath.Join(root, entry.Name())
		switch {
		case own[entry.Name()]:
		case entry.Type()&os.ModeSymlink != 0:
			link, err := os.Readlink(name)
			if err != nil {
				return fmt.Errorf("root of host: %w", err)
			}
			if err := os.Symlink(link, target); err != nil {
				return fmt.Errorf("root of node: %w", err)
			}
		case entry.IsDir():
			if err := bind(name, target); err != nil {
				return err
			}
		}
	}
	return nil
}

func ownDirectories(data string) error {
	for _, name := range []string{"var", "tmp"} {
		source := filepath.Join(data, name)
		if err := os.MkdirAll(source, 0o755); err != nil {
			return fmt.Errorf("data of node: %w", err)
		}
		if err := bind(source, filepath.Join(root, name)); err != nil {
			return err
		}
	}
	for _, name := range []string{"run", "var/lib", "var/log", "var/tmp"} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			return fmt.Errorf("root of node: %w", err)
		}
	}
	if err := os.Symlink("/run", filepath.Join(root, "var/run")); err != nil && !os.IsExist(err) {
		return fmt.Errorf("root of node: %w", err)
	}
	return os.Chmod(filepath.Join(root, "tmp"), 0o1777)
}

// ownGroups shows the node's control group as the root of every hierarchy.
func ownGroups(group string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("mounted control groups: %w", err)
	}
	system, err := cgroup.Detect(string(mounts))
	if err != nil {
		return err
	}
	for _, hierarchy := range system.All {
		if strings.HasPrefix(hierarchy, root+"/") {
			continue // the same one, shown below the node's root by now
		}
		// The host's view goes first: runtimes take the first that they find.
		shown := filepath.Join(root, hierarchy)
		if err := syscall.Unmount(shown, syscall.MNT_DETACH); err != nil {
			return fmt.Errorf("control groups of host at %s: %w", shown, err)
		}
		if err := bind(filepath.Join(hierarchy, group), shown); err != nil {
			return err
		}
	}
	return nil
}

// switchTo makes root the root of the mount namespace. Sharing is switched on again
// within the namespace only, so that volumes can propagate mounts as on any machine.
func switchTo() error {
	if err := os.Chdir(root); err != nil {
		return fmt.Errorf("root of node: %w", err)
	}
	// With the same directory twice the old root ends up on top of the new one.
	if err := syscall.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("switch to root of node: %w", err)
	}
	if err := syscall.Unmount(".", syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("leave root of host: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("root of node: %w", err)
	}
	return mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED)
}

// kernelSettings are those that a kubelet insists on, at the values it wants.
var kernelSettings = map[string]string{
	"vm/overcommit_memory":     "1",
	"vm/panic_on_oom":          "0",
	"kernel/panic":             "10",
	"kernel/panic_on_oops":     "1",
	"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
}

// pretendKernelSettings shows a kubelet what it wants to see, in files of the node's
// own, since the real settings are the host's too.
func pretendKernelSettings() error {
	for name, value := range kernelSettings {
		setting, shown := filepath.Join("/proc/sys", name), filepath.Join("/run/kernel-settings", name)
		if _, err := os.Stat(setting); err != nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(shown), 0o755); err != nil {
			return fmt.Errorf("kernel settings: %w", err)
		}
		if err := os.WriteFile(shown, []byte(value+"\n"), 0o644); err != nil {
			return fmt.Errorf("kernel settings: %w", err)
		}
		if err := mount(shown, setting, "", syscall.MS_BIND); err != nil {
			return err
		}
	}
	return nil
}

func bind(source, target string) error {
	if _, err := os.Stat(target); err != nil {
		if err := os.MkdirAll(target, 0o755); err != nil {
			return fmt.Errorf("mount point: %w", err)
		}
	}
	return mount(source, target, "", syscall.MS_BIND|syscall.MS_REC)
}

func mount(source, target, kind string, flags uintptr) error {
	if err := syscall.Mount(source, target, kind, flags, ""); err != nil {
		return fmt.Errorf("mount %s on %s: %w", source, target, err)
	}
	return nil
}
