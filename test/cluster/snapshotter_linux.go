// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import "syscall"

const overlayMagic = 0x794c7630

// snapshotterFor avoids layers on top of layers, which the kernel refuses: where the
// directory itself is in a container's file system, images are copied instead.
func snapshotterFor(dir string) string {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err == nil && stat.Type == overlayMagic {
		return "native"
	}
	return "overlayfs"
}
