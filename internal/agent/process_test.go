// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/internal/agent"
	"leasehold.dev/leaderelect/lease"
)

func TestExitStatusIsTheCommands(t *testing.T) {
	t.Parallel()
	for code, outcome := range map[int]v1alpha1.Outcome{0: v1alpha1.OutcomeSucceeded, 5: v1alpha1.OutcomeFailed} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			token, a := c.held(normal(), "exit", strconv.Itoa(code))
			a.wantExit(code)
			c.wantReleased(token, outcome)
		})
	}
}

func TestDeathBySignal(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	token, a := c.held(normal(), "plain")
	pid, _ := strconv.Atoi(a.line("ready")[0])
	if err := syscall.Kill(pid, syscall.SIGSEGV); err != nil {
		t.Fatal(err)
	}
	// The Go runtime of the command may turn the signal into a status of 2.
	if code := a.exit(); code != 128+int(syscall.SIGSEGV) && code != 2 {
		t.Errorf("exit status %d", code)
	}
	c.wantReleased(token, v1alpha1.OutcomeFailed)
}

func TestDeathByKill(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	_, a := c.held(normal(), "plain")
	pid, _ := strconv.Atoi(a.line("ready")[0])
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	a.wantExit(agent.ExitSignal + int(syscall.SIGKILL))
}

func TestEnvironmentIsReplaced(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	token, a := c.held(normal(), "env")
	a.wantExit(0)
	want := []string{
		"FENCING_TOKEN=" + strconv.FormatInt(token, 10), "FENCING_HOLDER=a_uid-of-a", "FENCING_ISSUER=issuer/of/this",
		"LEASE_NAME=" + leaseName, "LEASE_NAMESPACE=" + c.namespace,
	}
	var got []string
	for _, l := range a.seen {
		if e, ok := strings.CutPrefix(l, "env "); ok && (strings.HasPrefix(e, "FENCING_") || strings.HasPrefix(e, "LEASE_")) {
			got = append(got, e)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("environment %q, want %q", got, want)
	}
}

func TestStandardInputIsTheCommands(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.create(normal())
	c.grant("a")
	in, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	o := c.options("a")
	o.stdin = in
	a := startAgent(t, o, "echo")
	a.line("ready")
	fmt.Fprintln(write, "hello")
	if got := a.line("read"); !slices.Equal(got, []string{"hello"}) {
		t.Errorf("the command read %q", got)
	}
	_ = write.Close()
	_ = in.Close()
	a.wantExit(0)
}

func TestTerminationMessageNamesTheStart(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.create(normal())
	c.grant("a")
	o := c.options("a")
	if err := os.WriteFile(o.message, []byte("from before"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := startAgent(t, o, "plain")
	a.line("ready")
	message, err := os.ReadFile(o.message)
	if err != nil {
		t.Fatal(err)
	}
	want := "from before\n" + lease.TerminationMessage(c.record().Started) + "\n"
	if string(message) != want {
		t.Errorf("termination message %q, want %q", message, want)
	}
	// A command that writes its own message does not take ours away.
	if err := os.WriteFile(o.message, []byte("bye"), 0o600); err != nil {
		t.Fatal(err)
	}
	nonce := c.record().Started
	a.signal(syscall.SIGTERM)
	a.wantExit(agent.ExitSignal + int(syscall.SIGTERM))
	if message, _ = os.ReadFile(o.message); string(message) != "bye\n"+lease.TerminationMessage(nonce)+"\n" {
		t.Errorf("termination message %q", message)
	}
}

func TestMissingTerminationMessageFileStopsNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.create(normal())
	c.grant("a")
	o := c.options("a")
	o.message = filepath.Join(t.TempDir(), "none")
	a := startAgent(t, o, "exit", "0")
	a.wantExit(0)
	if !strings.Contains(a.said(), "termination message") {
		t.Error("says nothing about it")
	}
	if _, err := os.Stat(o.message); err == nil {
		t.Error("made a file that no kubelet reads")
	}
}

func TestTermWhileWaiting(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.create(normal())
	a := startAgent(t, c.options("a"), "exit", "0")
	a.says("waiting for the lease")
	a.signal(syscall.SIGTERM)
	a.wantExit(agent.ExitSignal + int(syscall.SIGTERM))
	if r := c.record(); r.Token != 0 {
		t.Errorf("the lease was touched: %+v", r)
	}
}

func TestSignalsReachTheCommand(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	token, a := c.held(normal(), "signals")
	a.line("ready")
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM} {
		a.signal(s)
		a.line("got " + s.String())
	}
	a.wantExit(7)
	c.wantReleased(token, v1alpha1.OutcomeStopped)
}

func TestStubbornWorkIsKilledAfterTheGrace(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.create(normal())
	token := c.grant("a")
	o := c.options("a")
	o.flags = []string{"--stop-grace=300ms"}
	a := startAgent(t, o, "stubborn", filepath.Join(t.TempDir(), "beat"))
	pid := a.line("ready")[0]
	a.signal(syscall.SIGTERM)
	eventually(t, "release", func() bool { return c.record().Released == token })
	if alive(pid) {
		t.Error("released while the work was alive")
	}
	a.wantExit(agent.ExitSignal + int(syscall.SIGKILL))
	c.wantReleased(token, v1alpha1.OutcomeStopped)
}

func TestNothingOutlivesTheRelease(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	token, a := c.held(normal(), "leaver", filepath.Join(t.TempDir(), "beat"))
	pid := a.line("left ready")[0]
	eventually(t, "release", func() bool { return c.record().Released == token })
	if alive(pid) {
		t.Error("released while a process of the work was alive")
	}
	a.wantExit(0)
	c.wantReleased(token, v1alpha1.OutcomeSucceeded)
}

// Without the agent the process that "leaver" leaves would live on: the guard
// that the test above looks for is needed.
func TestLeaverLeavesAProcess(t *testing.T) {
	t.Parallel()
	p := start(t, exec.Command(os.Args[0], asWork, "leaver", filepath.Join(t.TempDir(), "beat")))
	pid := p.line("left ready")[0]
	p.wantExit(0)
	if !alive(pid) {
		t.Error("nothing is left")
	}
	n, _ := strconv.Atoi(pid)
	_ = syscall.Kill(n, syscall.SIGKILL)
}

func TestWorkDiesWithTheAgent(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	_, a := c.held(normal(), "stubborn", filepath.Join(t.TempDir(), "beat"))
	pid := a.line("ready")[0]
	a.signal(syscall.SIGKILL)
	eventually(t, "death of the work", func() bool { return !alive(pid) })
}

func TestCommandThatCannotRunTakesNoLease(t *testing.T) {
	t.Parallel()
	notExecutable := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(notExecutable, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte{0, 1, 2, 3}, 0o700); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]int{
		"no-such-command-anywhere": agent.ExitNotFound, "/no/such/file": agent.ExitNotFound, notExecutable: agent.ExitNotExecutable,
		broken: agent.ExitNotExecutable,
	} {
		t.Run(filepath.Base(command), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.create(normal())
			token := c.grant("a")
			a := startCommand(t, c.options("a"), command)
			a.wantExit(want)
			if command == broken { // This is found out only by trying.
				c.wantReleased(token, v1alpha1.OutcomeFailed)
			} else if c.record().Started != "" {
				t.Error("the grant was confirmed")
			}
		})
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		want int
		says string
	}{
		"nothing":    {nil, agent.ExitUsage, "agent run"},
		"flag":       {[]string{"run", "--no-such-flag"}, agent.ExitUsage, "no-such-flag"},
		"no lease":   {[]string{"run", "--", "true"}, agent.ExitUsage, "LEASE_NAME"},
		"no command": {[]string{"run", "--lease=l", "--namespace=n", "--pod-name=p", "--pod-uid=u", "--container=c"}, agent.ExitUsage, "--"},
		"no API": {[]string{"run", "--lease=l", "--namespace=n", "--pod-name=p", "--pod-uid=u", "--container=c", "--", "true"},
			agent.ExitNoAPI, "API server"},
		"help": {[]string{"run", "--help"}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, exec.Command(os.Args[0], append([]string{asAgent}, tt.args...)...))
			p.wantExit(tt.want)
			if !strings.Contains(p.said(), tt.says) {
				t.Errorf("says %q, want something about %q", p.said(), tt.says)
			}
		})
	}
}
