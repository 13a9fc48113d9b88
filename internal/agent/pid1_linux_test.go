// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"leasehold.dev/api/v1alpha1"
)

// asFirst is the test binary as the first process of a container: it mounts the
// process table of its PID namespace, and becomes what its arguments say.
const asFirst = "first-process-under-test"

func init() {
	if len(os.Args) < 2 || os.Args[1] != asFirst {
		return
	}
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		fmt.Fprintln(os.Stderr, "mount namespace:", err)
		os.Exit(1)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		fmt.Fprintln(os.Stderr, "process table:", err)
		os.Exit(1)
	}
	args := append([]string{os.Args[0]}, os.Args[2:]...)
	fmt.Fprintln(os.Stderr, syscall.Exec(os.Args[0], args, os.Environ()))
	os.Exit(1)
}

// inContainer makes cmd the first process of PID and mount namespaces.
func inContainer(cmd *exec.Cmd) {
	cmd.Args = append([]string{cmd.Args[0], asFirst}, cmd.Args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
}

func TestAsTheFirstProcessOfAContainer(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root makes PID namespaces everywhere; the end-to-end tests run the agent in containers")
	}
	t.Run("nothing outlives the release", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		c.create(normal())
		token := c.grant("a")
		o := c.options("a")
		o.wrap = inContainer
		beat := filepath.Join(t.TempDir(), "beat")
		a := startAgent(t, o, "leaver", beat)
		a.line("left ready")
		eventually(t, "release", func() bool { return c.record().Released == token })
		if err := os.Remove(beat); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		a.wantExit(0)
		if _, err := os.Stat(beat); err == nil {
			t.Error("a process of the work beats after the release")
		}
	})
	t.Run("signals", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		c.create(normal())
		token := c.grant("a")
		o := c.options("a")
		o.wrap = inContainer
		a := startAgent(t, o, "signals")
		a.line("ready")
		a.signal(syscall.SIGTERM)
		a.line("got terminated")
		a.wantExit(7)
		c.wantReleased(token, v1alpha1.OutcomeStopped)
	})
	t.Run("waiting", func(t *testing.T) {
		t.Parallel()
		c := newCluster(t)
		c.create(normal())
		o := c.options("a")
		o.wrap = inContainer
		a := startAgent(t, o, "signals")
		a.says("waiting for the lease")
		a.signal(syscall.SIGTERM)
		a.wantExit(143)
	})
}
