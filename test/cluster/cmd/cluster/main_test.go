// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for line, want := range map[string]string{
		"a --name x b":       "x|a b",
		"--name=x a":         "x|a",
		"a -- b --name y -z": "|a b --name y -z",
		"-- --name y":        "|--name y",
		"a b c d e f":        "error",
		"":                   "error",
		"a --unknown":        "error",
	} {
		o := newOptions(&environment{stderr: &bytes.Buffer{}}, "test")
		operands, err := o.parse(strings.Fields(line), 1, 5)
		got := o.Name + "|" + strings.Join(operands, " ")
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: got %s, want %s (%v)", line, got, want, err)
		}
		if err != nil && !errors.Is(err, errUsage) {
			t.Errorf("%q: error %v is no usage error", line, err)
		}
	}
}

func TestSplitTarget(t *testing.T) {
	for target, want := range map[string]string{"a/b": "a b ", "a/b/c": "a b c", "a": "error", "a/": "error", "/b": "error", "a/b/c/d": "error"} {
		namespace, pod, container, err := splitTarget(target)
		got := namespace + " " + pod + " " + container
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", target, got, want)
		}
	}
}

func TestSignalNamed(t *testing.T) {
	for _, name := range []string{"KILL", "sigterm", "Int"} {
		if _, err := signalNamed(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := signalNamed("NONE"); !errors.Is(err, errUsage) {
		t.Errorf("unknown signal: got %v", err)
	}
}

func TestRun(t *testing.T) {
	var stdout, stderr bytes.Buffer
	env := &environment{stdout: &stdout, stderr: &stderr}
	if code := run(context.Background(), env, nil); code != 0 || !strings.Contains(stdout.String(), "freeze") {
		t.Errorf("help: code %d, output %s", code, stdout.String())
	}
	if code := run(context.Background(), env, []string{"dance"}); code != 2 {
		t.Errorf("unknown command: code %d", code)
	}
	if code := run(context.Background(), env, []string{"cut"}); code != 2 || !strings.Contains(stderr.String(), "usage: cluster cut") {
		t.Errorf("missing operand: code %d, output %s", code, stderr.String())
	}
}

func TestExitCode(t *testing.T) {
	env := &environment{stderr: &bytes.Buffer{}}
	for want, err := range map[int]error{0: nil, 1: errors.New("x"), 2: errUsage, 7: passedOn(7)} {
		if got := exitCode(env, command{}, err); got != want {
			t.Errorf("%v: got %d, want %d", err, got, want)
		}
	}
}

func TestImageCommand(t *testing.T) {
	dir := t.TempDir()
	file, out := filepath.Join(dir, "x"), filepath.Join(dir, "x.tar")
	if err := os.WriteFile(file, []byte("binary"), 0o755); err != nil {
		t.Fatal(err)
	}
	env := &environment{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}
	args := strings.Fields("image --out " + out + " --ref leasehold.dev/x:dev --entrypoint /x --entrypoint serve --env A=b " + file + ":/x")
	if code := run(context.Background(), env, args); code != 0 {
		t.Fatalf("code %d: %s", code, env.stderr)
	}
	data, err := os.ReadFile(out)
	if err != nil || !bytes.Contains(data, []byte(`"Entrypoint":["/x","serve"]`)) || !bytes.Contains(data, []byte(`"User":"65532"`)) {
		t.Errorf("archive lacks its configuration: %v", err)
	}
	if code := run(context.Background(), env, []string{"image", file + ":/x"}); code != 2 {
		t.Errorf("no name: code %d", code)
	}
}
