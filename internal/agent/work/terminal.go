// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package work

import (
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the controlling terminal, where this process is in its foreground
// on standard input. The command then gets the foreground, so that it may read,
// and ^C goes to it alone.
type terminal struct{ group int }

func openTerminal() terminal {
	foreground, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	if err != nil || foreground != unix.Getpgrp() {
		return terminal{}
	}
	return terminal{group: foreground}
}

// give puts the group into the foreground. A command that read before then was
// stopped, and is continued.
func (t terminal) give(group int) {
	if t.group == 0 {
		return
	}
	_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, group)
	_ = syscall.Kill(-group, syscall.SIGCONT)
}

// restore takes the foreground back. From the background that raises SIGTTOU.
func (t terminal) restore() {
	if t.group == 0 {
		return
	}
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, t.group)
}
