// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestStartOf(t *testing.T) {
	fields := "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20"
	for stat, want := range map[string]string{
		"7 (kubelet) " + fields:                            "4242",
		"7 (odd) name) (x) " + fields:                      "4242",
		"7 (dead) " + strings.Replace(fields, "S", "Z", 1): "",
		"7 (short) S 1 2":                                  "",
	} {
		got, err := startOf(stat)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("start in %q: got %q, %v; want %q", stat, got, err, want)
		}
	}
}

func TestStartAndKill(t *testing.T) {
	spec := Spec{Path: "/bin/sh", Args: []string{"-c", "echo hello; exec sleep 600"}, Log: filepath.Join(t.TempDir(), "log")}
	p, err := Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Alive() || p.Check() != nil {
		t.Fatal("started process does not run")
	}
	waitForWord(t, spec.Log, "hello")
	stranger := &Process{Spec: spec, PID: p.PID, Birth: "another boot/1"}
	if stranger.Alive() {
		t.Error("a process with the same number counts as the one that was started")
	}
	if err := stranger.Signal(os.Kill); !errors.Is(err, ErrGone) {
		t.Errorf("signal to a stranger: got %v, want ErrGone", err)
	}
	if err := p.Kill(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := p.Check(); !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "hello") {
		t.Errorf("check of ended process: got %v, want ErrGone with its last words", err)
	}
	if err := p.Kill(context.Background()); err != nil {
		t.Errorf("second kill: %v", err)
	}
}

// waitForWord waits until the log's last line has the word.
func waitForWord(t *testing.T, log, word string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !strings.Contains(Tail(log, 1), word); {
		if time.Now().After(deadline) {
			t.Fatalf("process did not say %q", word)
		}
	}
}

func TestTerminateKillsTheDeaf(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	p, err := Start(Spec{Path: "/bin/sh", Args: []string{"-c", "trap '' TERM; echo deaf; while :; do sleep 600; done"}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	waitForWord(t, log, "deaf")
	if err := p.Terminate(context.Background(), 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if p.Alive() {
		t.Error("process still runs")
	}
}

func TestEnvironmentIsMinimal(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	for _, entry := range minimalEnv() {
		if strings.HasPrefix(entry, "HTTPS_PROXY=") {
			t.Error("proxy setting is passed on")
		}
	}
}

func TestTail(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte("a\nb\nc\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := Tail(file, 2); got != "b\nc" {
		t.Errorf("got %q", got)
	}
	if got := Tail(file, 9); got != "a\nb\nc" {
		t.Errorf("got %q", got)
	}
}
