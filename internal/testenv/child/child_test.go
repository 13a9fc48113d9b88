// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package child

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// helperEnv makes the test binary act as a program that starts a server and
// never stops it.
const helperEnv = "CHILD_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		helper()
	}
	os.Exit(m.Run())
}

func helper() {
	s, err := New("child-test")
	if err != nil {
		panic(err)
	}
	if err := s.Start(nil, "/bin/sleep", "1000"); err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString(s.Dir + "\n")
	select {} // until killed
}

func TestStartAndStop(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	if err := s.Start([]string{"GREETING=hello"}, "/bin/sh", "-c", "echo $GREETING; exec sleep 1000"); err != nil {
		t.Fatal(err)
	}
	err := s.WaitReady(t.Context(), func(context.Context) error {
		if !strings.Contains(string(s.Log()), "hello") {
			return errors.New("silent")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(s.Dir); !os.IsNotExist(err) {
		t.Errorf("stat of the directory after Stop: %v, want it gone", err)
	}
	select {
	case <-s.exited:
	default:
		t.Error("the server runs after Stop")
	}
}

func TestWaitReadyQuotesTheLog(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	if err := s.Start(nil, "/bin/sh", "-c", "echo no room; exit 1"); err != nil {
		t.Fatal(err)
	}
	err := s.WaitReady(t.Context(), func(context.Context) error { return errors.New("silent") })
	if err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("error %v, want the server's own words", err)
	}
}

func TestFindNamesThePackage(t *testing.T) {
	t.Parallel()
	if _, err := Find("no-such-program", "some-package"); err == nil || !strings.Contains(err.Error(), `"some-package"`) {
		t.Errorf("error %v, want the package", err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "some-program")
	if err := os.WriteFile(path, nil, 0o700); err != nil { //nolint:gosec // A program.
		t.Fatal(err)
	}
	if got, err := Find("some-program", "some-package", dir); got != path || err != nil {
		t.Errorf("Find = %q, %v; want %q", got, err, path)
	}
}

// TestServerEndsWithItsOwner kills a process that has a server and expects the
// server to go, with its directory.
func TestServerEndsWithItsOwner(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimSpace(line)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if _, err := os.Stat(dir); err != nil {
		t.Fatalf("the helper's server: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	deadline := time.After(time.Minute)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if _, err := os.Stat(dir); os.IsNotExist(err) {
			return
		}
		select {
		case <-deadline:
			t.Fatal("the server's directory is still there after a minute")
		case <-tick.C:
		}
	}
}

func newServer(t *testing.T) *Server {
	t.Helper()
	s, err := New("child-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() })
	return s
}
