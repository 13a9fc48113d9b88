// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/internal/agent"
)

// openTerminal returns both ends of a new terminal.
func openTerminal(t *testing.T) (control, tty *os.File) {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = control.Close() })
	if err := unix.IoctlSetPointerInt(int(control.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(control.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	return control, tty
}

// The command is in a process group of its own, so without the foreground it
// would be stopped when it reads.
func TestCommandHasTheTerminal(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.create(normal())
	token := c.grant("a")
	control, tty := openTerminal(t)
	o := c.options("a")
	o.stdin = tty
	o.wrap = func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true, Setctty: true, Ctty: 0}
	}
	a := startAgent(t, o, "echo")
	a.line("ready")
	if _, err := control.WriteString("hello\n"); err != nil {
		t.Fatal(err)
	}
	if got := a.line("read"); !slices.Equal(got, []string{"hello"}) {
		t.Errorf("the command read %q", got)
	}
	if _, err := control.WriteString("\x03"); err != nil { // ^C goes to the foreground.
		t.Fatal(err)
	}
	a.wantExit(agent.ExitSignal + int(syscall.SIGINT))
	c.wantReleased(token, v1alpha1.OutcomeFailed)
}
