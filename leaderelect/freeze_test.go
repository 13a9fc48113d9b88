// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package leaderelect_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"leasehold.dev/internal/testenv/apiserver"
	"leasehold.dev/internal/testenv/faultproxy"
	"leasehold.dev/leaderelect"
)

// envChild makes this binary a program that leads: its value is API server,
// namespace and Lease.
const envChild = "LEADERELECT_TEST_CHILD"

// child answers each line of its input with what its term says at that moment.
func child() int {
	at := strings.Fields(os.Getenv(envChild))
	e, err := leaderelect.New(leaderelect.Options{Config: &rest.Config{Host: at[0]}, Namespace: at[1], Name: at[2], Identity: "child",
		Compete: &leaderelect.Compete{Duration: duration, RenewInterval: interval, Issuer: "contest", Fresh: true}})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	asked := bufio.NewReader(os.Stdin)
	err = e.Run(context.Background(), func(_ context.Context, t *leaderelect.Term) error {
		fmt.Println("leads with token", t.Claim().Token)
		for {
			if _, err := asked.ReadString('\n'); err != nil {
				return err
			}
			valid := t.Valid()
			fmt.Println("valid", valid, t.Err())
		}
	})
	fmt.Println("ended", err)
	return 0
}

type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    *os.File
	lines chan string
}

func startChild(t *testing.T, args string) *process {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(os.Args[0]), in: w, lines: make(chan string, 16)}
	p.cmd.Env = append(os.Environ(), envChild+"="+args)
	p.cmd.Stdin, p.cmd.Stderr = r, os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		_ = w.Close()
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

func (p *process) ask() {
	p.t.Helper()
	if _, err := p.in.WriteString("\n"); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) says(want string) {
	p.t.Helper()
	select {
	case l := <-p.lines:
		if !strings.HasPrefix(l, want) {
			p.t.Errorf("the child says %q, want %q", l, want)
		}
	case <-time.After(patience):
		p.t.Fatalf("the child does not say %q", want)
	}
}

const patience = 40 * time.Second

// TestFrozenProcess: a process is stopped past its lease, and another leads. Asked
// before it has run a single instruction since, it says that its term is over.
func TestFrozenProcess(t *testing.T) {
	t.Parallel()
	for name, succeeded := range map[string]bool{"and another leads": true, "and nobody else does": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newContest(t, apiserver.Namespace(t), 0)
			proxy := faultproxy.New(t, apiserver.Config(t))
			p := startChild(t, strings.Join([]string{proxy.Config().Host, c.namespace, c.name}, " "))
			p.says("leads with token")
			p.ask()
			p.says("valid true")
			if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			stopped := time.Now()
			if succeeded {
				leads := make(chan int64)
				e := elector(t, apiserver.Config(t), c, "other")
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go func() {
					_ = e.Run(ctx, func(ctx context.Context, t *leaderelect.Term) error {
						leads <- t.Claim().Token
						<-ctx.Done()
						return nil
					})
				}()
				select {
				case <-leads:
				case <-time.After(patience):
					t.Fatal("nobody takes over")
				}
			}
			wait(t.Context(), duration-time.Since(stopped))
			p.ask() // The question is there when it wakes.
			if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			p.says("valid false the term is lost")
		})
	}
}

func elector(t *testing.T, config *rest.Config, c *contest, who string) *leaderelect.Elector {
	t.Helper()
	e, err := leaderelect.New(leaderelect.Options{Config: config, Namespace: c.namespace, Name: c.name, Identity: who, OneTerm: true,
		ReleaseTimeout: time.Second, Compete: &leaderelect.Compete{Duration: duration, RenewInterval: interval, Issuer: "contest", Fresh: who == "a"}})
	if err != nil {
		t.Fatal(err)
	}
	return e
}
