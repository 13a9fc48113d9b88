// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// layOut builds the node's root directory below root and makes it the root of the
// mount namespace.
func layOut(root, data, keep string) error {
	// First of all nothing done here may reach the host.
	if err := mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE); err != nil {
		return err
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return fmt.Errorf("root of node: %w", err)
	}
	if err := mount("tmpfs", root, "tmpfs", 0); err != nil {
		return err
	}
	if err := takeOver(root); err != nil {
		return err
	}
	if err := ownDirectories(root, data); err != nil {
		return err
	}
	if err := bind(keep, filepath.Join(root, keep)); err != nil {
		return err
	}
	if err := switchTo(root); err != nil {
		return err
	}
	return pretendKernelSettings()
}

// own are the directories of the root that a node does not share with the host.
var own = map[string]bool{"var": true, "run": true, "tmp": true}

// takeOver shows all other directories of the host.
func takeOver(root string) error {
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

func ownDirectories(root, data string) error {
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

// switchTo makes root the root of the mount namespace. Sharing is switched on again
// within the namespace only, so that volumes can propagate mounts as on any machine.
func switchTo(root string) error {
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
		real, shown := filepath.Join("/proc/sys", name), filepath.Join("/run/kernel-settings", name)
		if _, err := os.Stat(real); err != nil {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(shown), 0o755); err != nil {
			return fmt.Errorf("kernel settings: %w", err)
		}
		if err := os.WriteFile(shown, []byte(value+"\n"), 0o644); err != nil {
			return fmt.Errorf("kernel settings: %w", err)
		}
		if err := mount(shown, real, "", syscall.MS_BIND); err != nil {
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
