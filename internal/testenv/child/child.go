// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package child runs server programs for tests. A server ends with Stop or with
// this process, however that ends: it hangs on a pipe that only this process
// holds open.
package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

const (
	// stopGrace bounds an orderly shutdown; then the server is killed.
	stopGrace = 10 * time.Second
	// pollEvery is how often WaitReady asks.
	pollEvery = 20 * time.Millisecond
	// logTail is how many bytes of the server's log an error quotes.
	logTail = 2000
)

// Server is a program that runs in a temporary directory of its own.
type Server struct {
	// Dir is the temporary directory. Stop removes it.
	Dir string

	cmd      *exec.Cmd
	lifeline io.Closer
	exited   chan struct{} // closed once the server is gone
}

// New makes the directory for a server, named after it.
func New(name string) (*Server, error) {
	dir, err := os.MkdirTemp("", name+"-")
	if err != nil {
		return nil, err
	}
	return &Server{Dir: dir, exited: make(chan struct{})}, nil
}

// supervisor runs the server as its child and stops it when its descriptor 3
// ends, which is when this process closes it or dies: so not even a killed test
// leaves a server, nor its directory, named first. It ends when the server does.
const supervisor = `dir=$1; shift
"$@" </dev/null 3<&- & server=$!
{ read -r _; : > stopped; kill -TERM $server; } 2>/dev/null <&3 & watch=$!
wait $server; status=$?
kill $watch 2>/dev/null
if [ -e stopped ]; then rm -rf "$dir" 2>/dev/null; fi
exit $status`

// Start runs the program with the arguments, in the server's directory and with
// its output in a log there. env is added to the environment.
func (s *Server) Start(env []string, program string, args ...string) error {
	log, err := os.Create(s.logFile())
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return errors.Join(err, log.Close())
	}
	defer func() { _, _ = log.Close(), r.Close() }() // the child has its own
	cmd := exec.Command("/bin/sh", slices.Concat([]string{"-c", supervisor, "child", s.Dir, program}, args)...)
	cmd.Dir, cmd.Env = s.Dir, append(os.Environ(), env...)
	cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = []*os.File{r}, log, log
	// Apart from our process group: an interrupt typed at the terminal reaches
	// us alone, and we stop the server.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, w.Close())
	}
	s.cmd, s.lifeline = cmd, w
	go func() {
		_ = cmd.Wait() // the log has the reason, and WaitReady quotes it
		close(s.exited)
	}()
	return nil
}

// WaitReady returns once ready returns nil. The error quotes the server's log.
func (s *Server) WaitReady(ctx context.Context, ready func(context.Context) error) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.exited:
			return fmt.Errorf("the server ended at once: %s", s.Log())
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer: %w (%w): %s", ctx.Err(), err, s.Log())
		case <-ticker.C:
		}
	}
}

// Stop ends the server and removes its directory. It may be called more than
// once, also on a server that was not started.
func (s *Server) Stop() error {
	var err error
	if s.cmd != nil {
		err = s.shutdown()
		s.cmd = nil
	}
	return errors.Join(err, os.RemoveAll(s.Dir))
}

func (s *Server) shutdown() error {
	_ = s.lifeline.Close() // the supervisor sees the end of its input and stops the server
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-s.exited:
		return nil
	case <-timer.C:
	}
	// The group is the supervisor's own (Setpgid), so nothing else is hit.
	if err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill the server, which did not stop within %v: %w", stopGrace, err)
	}
	<-s.exited
	return nil
}

// Log is the end of what the server has printed.
func (s *Server) Log() []byte {
	log, err := os.ReadFile(s.logFile())
	if err != nil {
		return []byte(err.Error())
	}
	return Tail(log)
}

func (s *Server) logFile() string { return filepath.Join(s.Dir, "log") }

// Tail is the end of a program's output, for an error text.
func Tail(b []byte) []byte { return bytes.Clone(b[max(0, len(b)-logTail):]) }

// FreePort returns a TCP port of the loopback address that nobody listens on.
func FreePort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// Find returns the path of a program in PATH or in one of the directories, or an
// error that says which package has it.
func Find(program, pkg string, dirs ...string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	for _, dir := range dirs {
		if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("the program %s is not installed: install the package %q, "+
		"or put the directory that has it into PATH", program, pkg)
}
