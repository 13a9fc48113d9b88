// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/internal/agent"
)

// family are commands that have descendants.
func family(kind string, args []string) int {
	switch kind {
	case "parent": // Has a child in its process group, and waits.
		fmt.Println("child", child(false, "stubborn", args[0]))
		select {}
	case "escaped": // Has a child in another session, and waits.
		fmt.Println("child", child(true, "stubborn", args[0]))
		select {}
	case "forker": // Forks twice, each time into another session, and ends.
		fmt.Println("left", child(true, "leaver", args[0]))
		return 0
	}
	return 99
}

// child starts a command of the test and returns the process that its
// first line names: its own, or the one that it left.
func child(session bool, kind string, args ...string) string {
	cmd := exec.Command(os.Args[0], append([]string{asWork, kind}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		return err.Error()
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	words := strings.Fields(strings.TrimPrefix(line, "left "))
	for _, w := range words { // "ready" comes before the number.
		if _, err := strconv.Atoi(w); err == nil {
			return w
		}
	}
	return line
}

func TestDescendantsDieWithTheTerm(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"parent", "escaped"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			token, a := c.held(normal(), kind, filepath.Join(t.TempDir(), "beat"))
			pid := a.line("child")[0]
			if !alive(pid) {
				t.Fatalf("there is no process %q", pid)
			}
			a.signal(syscall.SIGTERM)
			eventually(t, "release", func() bool { return c.record().Released == token })
			if alive(pid) {
				t.Error("released while a descendant was alive")
			}
			a.wantExit(agent.ExitSignal + int(syscall.SIGTERM))
		})
	}
}

func TestCommandThatForksAwayTwice(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	token, a := c.held(normal(), "forker", filepath.Join(t.TempDir(), "beat"))
	pid := a.line("left")[0]
	eventually(t, "release", func() bool { return c.record().Released == token })
	if alive(pid) {
		t.Error("released while a process of the work was alive")
	}
	a.wantExit(0)
}

// The kernel's OOM killer sends SIGKILL to one process: here to the command,
// whose child then still runs.
func TestCommandKilledForMemory(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	token, a := c.held(normal(), "escaped", filepath.Join(t.TempDir(), "beat"))
	pid := a.line("child")[0]
	n, _ := strconv.Atoi(parentOf(t, pid))
	if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "release", func() bool { return c.record().Released == token })
	if alive(pid) {
		t.Error("released while a descendant was alive")
	}
	a.wantExit(agent.ExitSignal + int(syscall.SIGKILL))
	c.wantReleased(token, v1alpha1.OutcomeFailed)
}

func parentOf(t *testing.T, pid string) string {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[1]
}

// A signal that comes before the reply to the confirmation stops the start: the
// command never runs, and the term goes back.
func TestTermDuringTheStart(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.create(normal())
	r := newRelay(t, c.address())
	o := c.options("a")
	o.kubeconfig = c.kubeconfig(r.address())
	ran := filepath.Join(t.TempDir(), "ran")
	a := startAgent(t, o, "stubborn", ran)
	a.says("waiting for the lease")
	r.freeze()
	token := c.grant("a")
	a.signal(syscall.SIGTERM)
	r.thaw()
	a.wantExit(agent.ExitSignal + int(syscall.SIGTERM))
	if _, err := os.Stat(ran); err == nil {
		t.Error("the command ran")
	}
	if rec := c.record(); rec.Started != "" && rec.Released != token {
		t.Errorf("the term was confirmed and not released: %+v", rec)
	}
}

// hostile is a container as the strictest pods have it: nothing but the static
// program, no shell, everything read-only, and another user.
func hostile(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	programs := t.TempDir()
	for name, source := range map[string]string{"agent": "leasehold.dev/cmd/agent", "where": "./testdata/where"} {
		build := exec.Command("go", "build", "-o", filepath.Join(programs, name), source)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	cmd.Args = append([]string{cmd.Args[0], asHostile, t.TempDir(), filepath.Join(programs, "agent"), filepath.Join(programs, "where")}, cmd.Args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
}

const asHostile = "hostile-container"

func init() {
	if len(os.Args) > 2 && os.Args[1] == asHostile {
		fmt.Fprintln(os.Stderr, enterHostile(os.Args[2], os.Args[3:]))
		os.Exit(1)
	}
}

const nobody = 65534

// enterHostile makes the container and becomes the agent in it.
func enterHostile(root string, args []string) error {
	at := func(name string) string { return filepath.Join(root, name) }
	steps := []func() error{
		func() error { return syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "") },
		func() error { return syscall.Mount("none", root, "tmpfs", 0, "mode=755") },
		func() error { return os.Mkdir(at("proc"), 0o755) },
		func() error { return syscall.Mount("proc", at("proc"), "proc", 0, "") },
		func() error { return copyFile(args[0], at("agent"), 0o755) },
		func() error { return copyFile(args[1], at("where"), 0o755) },
		func() error { return copyFile(kubeconfigIn(args[2:]), at("kubeconfig"), 0o444) },
		func() error { return syscall.Mount("", root, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "") },
		func() error { return syscall.Chroot(root) },
		func() error { return os.Chdir("/") },
		func() error { return syscall.Setgroups(nil) },
		func() error { return syscall.Setgid(nobody) },
		func() error { return syscall.Setuid(nobody) },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return syscall.Exec("/agent", []string{"/agent", "run", "--kubeconfig=/kubeconfig", "--", "/where"}, os.Environ())
}

func kubeconfigIn(args []string) string {
	for _, a := range args {
		if path, ok := strings.CutPrefix(a, "--kubeconfig="); ok {
			return path
		}
	}
	return ""
}

func copyFile(from, to string, mode os.FileMode) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, text, mode); err != nil {
		return err
	}
	return os.Chmod(to, mode)
}

func TestReadOnlyRootOtherUserAndNoShell(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root makes PID namespaces everywhere; the end-to-end tests run the agent in containers")
	}
	c := newCluster(t)
	c.create(normal())
	token := c.grant("a")
	o := c.options("a")
	o.wrap = func(cmd *exec.Cmd) { hostile(t, cmd) }
	a := startAgent(t, o, "where")
	if got := a.line("user")[0]; got != strconv.Itoa(nobody) {
		t.Errorf("runs as user %s", got)
	}
	for _, want := range []string{"read-only", "no shell"} {
		a.line(want)
	}
	a.wantExit(0)
	c.wantReleased(token, v1alpha1.OutcomeSucceeded)
}
