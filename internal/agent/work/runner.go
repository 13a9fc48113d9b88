// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package work runs the command of a term: in a process group of its own, with
// the agent as the parent of whatever it leaves behind, and never beyond Kill.
package work

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
)

// Exit statuses for a command that cannot be started, as shells have them.
const (
	CodeNotExecutable = 126
	CodeNotFound      = 127
)

// errKilled: the deadline came before the command had begun.
var errKilled = errors.New("its time was over before it began")

// Report is told about a run of the command. Its functions may be called from
// any goroutine, in the order Started, Ended, Gone; after a failure to start
// there is no Ended.
type Report struct {
	// Started tells that the command runs, or why it does not and with which
	// exit status that is reported.
	Started func(err error, code int)
	// Ended tells the command's exit status, 128+n for death by signal n.
	Ended func(code int)
	// Gone tells that no process of the work is left.
	Gone func()
}

// Runner starts commands, one at a time, and reaps every child of this process:
// there must be one Runner in a process, and nothing else may wait for children.
type Runner struct {
	mu      sync.Mutex // held by a fork and by the reaper
	current atomic.Pointer[run]
	chld    chan os.Signal
	stop    chan struct{}
	term    terminal
}

type run struct {
	pid    int  // also the process group
	reaped bool // the pid is free
	killed atomic.Bool
	ended  chan int
	report Report
}

// NewRunner makes this process the parent of all its orphaned descendants and
// begins to reap. Close it after use.
func NewRunner() (*Runner, error) {
	if err := adoptOrphans(); err != nil {
		return nil, err
	}
	r := &Runner{chld: make(chan os.Signal, 1), stop: make(chan struct{}), term: openTerminal()}
	signal.Notify(r.chld, syscall.SIGCHLD)
	go r.reapLoop()
	return r, nil
}

// Close ends the reaping.
func (r *Runner) Close() {
	signal.Stop(r.chld)
	close(r.stop)
}

// Find resolves the command as a shell would; the error comes with the exit
// status for it.
func Find(name string) (string, int, error) {
	path, err := exec.LookPath(name)
	if err == nil || errors.Is(err, exec.ErrDot) {
		return path, 0, nil
	}
	return "", codeFor(err), fmt.Errorf("command %q cannot be run: %w", name, err)
}

func codeFor(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return CodeNotFound
	}
	return CodeNotExecutable
}

// Start starts the program at path and returns at once.
func (r *Runner) Start(path string, argv, env []string, report Report) {
	w := &run{ended: make(chan int, 1), report: report}
	r.current.Store(w)
	go r.live(w, path, argv, env)
}

// live is the life of one run. The kernel signals the command's death-of-parent
// signal when the thread that forked it ends, so this thread is kept for it.
func (r *Runner) live(w *run, path string, argv, env []string) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := r.fork(w, path, argv, env); err != nil {
		w.report.Started(fmt.Errorf("%s: %w", path, err), codeFor(err))
	} else {
		w.report.Started(nil, 0)
		w.report.Ended(<-w.ended)
	}
	r.clear(w)
	r.term.restore()
	w.report.Gone()
}

// fork holds the lock until the child is known, so that the reaper cannot meet
// a child that it does not know.
func (r *Runner) fork(w *run, path string, argv, env []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.killed.Load() {
		return errKilled
	}
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Env:   env,
		Files: []uintptr{0, 1, 2},
		Sys:   attributes(),
	})
	if err != nil {
		return err
	}
	w.pid = pid
	if w.killed.Load() { // The deadline came meanwhile, and Kill waits for the lock.
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
	r.term.give(pid)
	return nil
}

// Signal sends a signal to the command's process group, or, where the command
// has left that, to the command itself.
func (r *Runner) Signal(s syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.current.Load()
	if w == nil || w.pid == 0 {
		return
	}
	if err := syscall.Kill(-w.pid, s); errors.Is(err, syscall.ESRCH) && !w.reaped {
		_ = syscall.Kill(w.pid, s)
	}
}

// Kill ends the work by force, what left the process group included; a command
// that has not begun never will. Whatever is forked meanwhile follows as soon as
// the command has ended.
func (r *Runner) Kill() {
	w := r.current.Load()
	if w == nil {
		return
	}
	w.killed.Store(true) // First: a fork under way holds the lock.
	r.Signal(syscall.SIGKILL)
	killDescendants()
}
