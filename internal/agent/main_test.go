// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"leasehold.dev/internal/agent"
)

// The test binary is also the agent under test and the commands that it runs.
const (
	asAgent = "agent-under-test"
	asWork  = "work-under-test"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == asAgent {
		os.Exit(agent.Main(context.Background(), os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == asWork {
		os.Exit(workUnderTest(os.Args[2], os.Args[3:]))
	}
	// A signal that this process catches is back at its default in the agents
	// that it starts, even where it was itself started to ignore it (nohup).
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	code := m.Run()
	stopControlPlane()
	os.Exit(code)
}

// workUnderTest is a command as users have them. It says what happens to it in
// lines on standard output.
func workUnderTest(kind string, args []string) int {
	switch kind {
	case "exit":
		var code int
		_, _ = fmt.Sscan(args[0], &code)
		return code
	case "env":
		for _, e := range os.Environ() {
			fmt.Println("env", e)
		}
		return 0
	case "signals": // Tells of each signal; ends with 7 after TERM or INT.
		c := make(chan os.Signal, 8)
		signal.Notify(c, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
		fmt.Println("ready", os.Getpid(), os.Getenv("FENCING_TOKEN"))
		for s := range c {
			fmt.Println("got", s)
			if s == syscall.SIGTERM || s == syscall.SIGINT {
				return 7
			}
		}
	case "echo": // Repeats its input.
		fmt.Println("ready", os.Getpid(), os.Getenv("FENCING_TOKEN"))
		for s := bufio.NewScanner(os.Stdin); s.Scan(); {
			fmt.Println("read", s.Text())
		}
		return 0
	case "plain": // Dies of any signal.
		fmt.Println("ready", os.Getpid(), os.Getenv("FENCING_TOKEN"))
		select {}
	case "until": // Ends with 0 when the file exists.
		fmt.Println("ready", os.Getpid(), os.Getenv("FENCING_TOKEN"))
		for range time.Tick(5 * time.Millisecond) {
			if _, err := os.Stat(args[0]); err == nil {
				return 0
			}
		}
	case "stubborn": // Ignores SIGTERM, and beats.
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready", os.Getpid(), os.Getenv("FENCING_TOKEN"))
		for range time.Tick(5 * time.Millisecond) {
			_ = os.WriteFile(args[0], []byte("alive"), 0o600)
		}
	case "leaver": // Leaves a process in a session of its own, and ends with 0.
		child := exec.Command(os.Args[0], asWork, "stubborn", args[0])
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		out, _ := child.StdoutPipe()
		if err := child.Start(); err != nil {
			fmt.Println(err)
			return 1
		}
		line, _ := bufio.NewReader(out).ReadString('\n')
		fmt.Print("left ", line)
		return 0
	default:
		return family(kind, args)
	}
	return 99
}

const patience = 30 * time.Second

// proc is a running agent.
type proc struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
	seen  []string

	mu     sync.Mutex
	stderr bytes.Buffer
	done   chan struct{}
}

type agentOptions struct {
	kubeconfig string
	namespace  string
	pod        string
	message    string
	flags      []string
	stdin      *os.File
	wrap       func(*exec.Cmd)
}

// message makes an empty termination message file, as the kubelet does.
func messageFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "termination-log")
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

const leaseName = "work"

// startAgent runs "agent run -- <this binary> work-under-test …".
func startAgent(t *testing.T, o agentOptions, work ...string) *proc {
	t.Helper()
	return startCommand(t, o, append([]string{os.Args[0], asWork}, work...)...)
}

func startCommand(t *testing.T, o agentOptions, command ...string) *proc {
	t.Helper()
	args := []string{asAgent, "run", "--kubeconfig=" + o.kubeconfig, "--termination-message-path=" + o.message}
	args = append(args, o.flags...)
	args = append(args, "--")
	args = append(args, command...)
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "LEASE_NAME="+leaseName, "LEASE_NAMESPACE="+o.namespace, "LEASEHOLD_POD_NAME="+o.pod,
		"LEASEHOLD_POD_UID=uid-of-"+o.pod, "LEASEHOLD_CONTAINER=main", "FENCING_TOKEN=1", "FENCING_ISSUER=old")
	if o.stdin != nil {
		cmd.Stdin = o.stdin
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if o.wrap != nil {
		o.wrap(cmd)
	}
	return start(t, cmd)
}

func start(t *testing.T, cmd *exec.Cmd) *proc {
	t.Helper()
	p := &proc{t: t, cmd: cmd, lines: make(chan string, 256), done: make(chan struct{})}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = p
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		defer close(p.lines)
		s := bufio.NewScanner(out)
		for s.Scan() {
			p.lines <- s.Text()
		}
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Kill()
		<-p.done
		t.Logf("agent %d said:\n%s", cmd.Process.Pid, p.said())
	})
	return p
}

// Write collects the agent's standard error.
func (p *proc) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.Write(b)
}

func (p *proc) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// says waits for a word of the agent's own.
func (p *proc) says(text string) {
	p.t.Helper()
	eventually(p.t, "the agent says "+text, func() bool { return strings.Contains(p.said(), text) })
}

// line waits for a line of the work that begins with prefix, and returns the
// rest of its words.
func (p *proc) line(prefix string) []string {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case l, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("the agent ended without the line %q; lines: %q; it said:\n%s", prefix, p.seen, p.said())
			}
			p.seen = append(p.seen, l)
			if rest, ok := strings.CutPrefix(l, prefix); ok {
				return strings.Fields(rest)
			}
		case <-deadline:
			p.t.Fatalf("no line %q in time; lines: %q; it said:\n%s", prefix, p.seen, p.said())
		}
	}
}

// exit waits for the agent's end; its exit status.
func (p *proc) exit() int {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case l, ok := <-p.lines:
			if !ok {
				<-p.done
				return p.cmd.ProcessState.ExitCode()
			}
			p.seen = append(p.seen, l)
		case <-deadline:
			p.t.Fatalf("the agent does not end; lines: %q; it said:\n%s", p.seen, p.said())
		}
	}
}

func (p *proc) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		}
	}
}

// alive reports whether the process exists and is no zombie.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return fields[0] != "Z" && fields[0] != "X"
}
