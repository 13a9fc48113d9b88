// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package pgtest

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const startTimeout = 2 * time.Minute

// helperEnv makes the test binary act as a program that starts a server and
// never stops it.
const helperEnv = "PGTEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperEnv) != "" {
		helper()
	}
	os.Exit(m.Run())
}

func helper() {
	s, err := Start(context.Background(), Options{})
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString(s.SocketPath() + "\n")
	select {} // until killed
}

func TestServer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		opts Options
	}{
		{"socket only", Options{Settings: map[string]string{"work_mem": "5MB"}}},
		{"TCP on a free port", Options{ListenAddr: "127.0.0.1", Settings: map[string]string{"work_mem": "5MB"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, tt.opts)
			for _, dsn := range []string{s.DSN(), s.SocketDSN()} {
				if got := query(t, dsn, "SHOW work_mem"); got != "5MB" {
					t.Errorf("work_mem = %q over %s, want the setting, 5MB", got, dsn)
				}
			}
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			if conn, err := pgx.Connect(t.Context(), s.DSN()); err == nil {
				_ = conn.Close(t.Context())
				t.Error("the server answers after Stop")
			}
			if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
				t.Errorf("stat of the temporary directory after Stop: %v, want it gone", err)
			}
			if err := s.Stop(); err != nil {
				t.Errorf("second Stop: %v", err)
			}
		})
	}
}

func TestTCPNeedsPassword(t *testing.T) {
	t.Parallel()
	s := start(t, Options{ListenAddr: "127.0.0.1"})
	dsn := strings.Replace(s.DSN(), s.password, "wrong", 1)
	_, err := pgx.Connect(t.Context(), dsn)
	if err == nil || !strings.Contains(err.Error(), "password authentication failed") {
		t.Errorf("connect with a wrong password: %v", err)
	}
}

func TestCallersDirStays(t *testing.T) {
	t.Parallel()
	parent, err := os.MkdirTemp("", "pg-") //nolint:usetesting // t.TempDir is closed to other accounts.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(parent) })
	if err := os.Chmod(parent, 0o755); err != nil { //nolint:gosec // The server's account passes through.
		t.Fatal(err)
	}
	s := start(t, Options{Dir: filepath.Join(parent, "server")})
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.logFile()); err != nil {
		t.Errorf("the log after Stop: %v", err)
	}
}

func TestStartFailureQuotesTheLog(t *testing.T) {
	t.Parallel()
	_, err := Start(t.Context(), Options{Settings: map[string]string{"no_such_setting": "1"}})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("error %v, want the server's own words", err)
	}
}

func TestLookProgramsWantsBothExecutable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	initdb, postgres := filepath.Join(dir, "initdb"), filepath.Join(dir, "postgres")
	for _, name := range []string{initdb, postgres} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range []string{"", initdb, postgres} {
		if name != "" {
			if err := os.Chmod(name, 0o700); err != nil { //nolint:gosec // A program.
				t.Fatal(err)
			}
		}
		p, ok := lookPrograms(dir)
		if found := ok && p.initdb == initdb; found != (i == 2) {
			t.Errorf("with %d programs executable: found = %v", i, found)
		}
	}
}

// TestServerEndsWithItsOwner kills a process that has a server and expects the
// server to go.
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
	socket := strings.TrimSpace(line)
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(socket)) })
	if _, err := os.Stat(socket); err != nil {
		t.Fatalf("the helper's server: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	eventually(t, "the server and its directory are gone", func() bool {
		_, err := os.Stat(filepath.Dir(socket))
		return os.IsNotExist(err)
	})
}

func start(t *testing.T, opts Options) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	s, err := Start(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() })
	return s
}

func query(t *testing.T, dsn, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	var got string
	if err := conn.QueryRow(t.Context(), sql).Scan(&got); err != nil {
		t.Fatal(err)
	}
	return got
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-deadline:
			t.Fatalf("not within a minute: %s", what)
		case <-tick.C:
		}
	}
}
