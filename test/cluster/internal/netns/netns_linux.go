// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package netns opens sockets in the network namespace of another process.
package netns

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// setnsNumber is the system call's number, which package syscall does not have for
// every architecture.
var setnsNumber = map[string]uintptr{
	"386": 346, "amd64": 308, "arm": 375, "arm64": 268, "loong64": 268, "ppc64le": 350, "riscv64": 268, "s390x": 339,
}

// Do calls a function within the network namespace of a process. A socket belongs
// to the namespace that it was made in, so what the function opens can be used from
// anywhere. It must do so in the goroutine it is called in.
func Do(pid int, do func() error) error {
	number, ok := setnsNumber[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("network namespaces: system call not known for %s", runtime.GOARCH)
	}
	result := make(chan error, 1)
	go func() {
		// Never unlocked: the thread that changed its namespace ends with the goroutine.
		runtime.LockOSThread()
		result <- enterAndDo(number, pid, do)
	}()
	return <-result
}

func enterAndDo(number uintptr, pid int, do func() error) error {
	file, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return fmt.Errorf("network namespace: %w", err)
	}
	defer func() { _ = file.Close() }()
	if _, _, errno := syscall.RawSyscall(number, file.Fd(), syscall.CLONE_NEWNET, 0); errno != 0 {
		return fmt.Errorf("enter network namespace: run as root: %w", errno)
	}
	return do()
}
