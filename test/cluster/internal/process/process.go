// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package process starts programs that outlive their starter and finds them again.
//
// A process number alone may be taken by another program after a while, so a process
// is remembered together with the moment of its start and is only ever signalled
// while both still agree.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"leasehold.dev/test/cluster/internal/wait"
)

// Spec is how to start a program; it is kept, so that it can be started again.
type Spec struct {
	Path string   `json:"path"`
	Args []string `json:"args,omitempty"`
	// Enter is a command that puts the program into its namespaces and ends by running it.
	Enter []string `json:"enter,omitempty"`
	Env   []string `json:"env,omitempty"`
	Log   string   `json:"log"`
}

// Process is a started program.
type Process struct {
	Spec  Spec   `json:"spec"`
	PID   int    `json:"pid"`
	Birth string `json:"birth"`
}

// ErrGone says that the process runs no more.
var ErrGone = errors.New("process is gone")

// Start runs the program detached from this one, its output going to its log.
func Start(spec Spec, files ...*os.File) (*Process, error) {
	if err := os.MkdirAll(filepath.Dir(spec.Log), 0o755); err != nil {
		return nil, fmt.Errorf("directory of logs: %w", err)
	}
	log, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("log file: %w", err)
	}
	defer func() { _ = log.Close() }()
	argv := append(append(append([]string{}, spec.Enter...), spec.Path), spec.Args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(minimalEnv(), spec.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = files
	cmd.SysProcAttr = detached()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", filepath.Base(spec.Path), err)
	}
	pid := cmd.Process.Pid
	go func() { _ = cmd.Wait() }() // reaps it, should it end while we live
	started, err := birth(pid)
	if err != nil {
		return nil, fmt.Errorf("%s ended at once: see %s: %w", filepath.Base(spec.Path), spec.Log, err)
	}
	return &Process{Spec: spec, PID: pid, Birth: started}, nil
}

// minimalEnv keeps proxies and other settings of the caller away from the cluster.
func minimalEnv() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "SystemRoot"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// Alive tells whether the very process that was started still runs.
func (p *Process) Alive() bool {
	if p == nil || p.PID == 0 {
		return false
	}
	started, err := birth(p.PID)
	return err == nil && started == p.Birth
}

// Check is an error with the end of the log if the process runs no more.
func (p *Process) Check() error {
	if p.Alive() {
		return nil
	}
	return fmt.Errorf("%s: %w; its log %s ends:\n%s", filepath.Base(p.Spec.Path), ErrGone, p.Spec.Log, Tail(p.Spec.Log, 12))
}

// Kill ends the process at once and returns when it is gone.
func (p *Process) Kill(ctx context.Context) error {
	return p.end(ctx, os.Kill, 10*time.Second)
}

// Terminate asks the process to end and kills it if it takes too long.
func (p *Process) Terminate(ctx context.Context, patience time.Duration) error {
	if err := p.end(ctx, gentle, patience); err == nil {
		return nil
	}
	return p.Kill(ctx)
}

// Signal sends the process a signal if it still is the one that was started.
func (p *Process) Signal(sig os.Signal) error {
	if !p.Alive() {
		return ErrGone
	}
	found, err := os.FindProcess(p.PID)
	if err != nil {
		return fmt.Errorf("process %d: %w", p.PID, err)
	}
	return found.Signal(sig)
}

func (p *Process) end(ctx context.Context, sig os.Signal, limit time.Duration) error {
	if err := p.Signal(sig); errors.Is(err, ErrGone) || errors.Is(err, os.ErrProcessDone) {
		return nil
	} else if err != nil {
		return fmt.Errorf("signal %s: %w", filepath.Base(p.Spec.Path), err)
	}
	return wait.Within(ctx, limit, "end of "+filepath.Base(p.Spec.Path), func() error {
		if p.Alive() {
			return fmt.Errorf("process %d still runs", p.PID)
		}
		return nil
	})
}

// Tail returns the last lines of a log, for errors that need no second look.
func Tail(file string, lines int) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
