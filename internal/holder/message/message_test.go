// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package message_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leasehold.dev/internal/holder/message"
	"leasehold.dev/leaderelect/lease"
)

func TestAppend(t *testing.T) {
	t.Parallel()
	line := lease.TerminationMessage("n")
	for have, want := range map[string]string{
		"":                      line + "\n",
		"words":                 "words\n" + line + "\n",
		"words\n":               "words\n" + line + "\n",
		line:                    line,
		"a\n" + line + "\nb":    "a\n" + line + "\nb",
		line + "x":              line + "x\n" + line + "\n",
		strings.Repeat("x", 10): strings.Repeat("x", 10) + "\n" + line + "\n",
	} {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, []byte(have), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := message.Append(path, "n"); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(path); string(got) != want {
			t.Errorf("%q becomes %q, want %q", have, got, want)
		}
	}
}

// The kubelet makes the file. One that it did not make it will not read.
func TestAppendMakesNoFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	if err := message.Append(path, "n"); !os.IsNotExist(err) {
		t.Errorf("the error is %v, want that there is no such file", err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("there is a file now: %v", err)
	}
}
