// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestClassOf(t *testing.T) {
	t.Parallel()
	want := map[error]Class{
		nil:                            ClassAccepted,
		&FencedError{}:                 ClassFenced,
		&NotRaisedError{}:              ClassNotRaised,
		&BehindError{}:                 ClassBehind,
		&ForeignError{}:                ClassForeign,
		&NotArmedError{}:               ClassNotArmed,
		&RetryError{Err: io.EOF}:       ClassRetry,
		&UnknownError{Err: io.EOF}:     ClassUnknown,
		ErrInvalidClaim:                ClassInvalid,
		ErrNoClaim:                     ClassInvalid,
		io.EOF:                         ClassOther,
		fmt.Errorf("w: %w", ErrFenced): ClassFenced,
	}
	for err, class := range want {
		if got := ClassOf(err); got != class {
			t.Errorf("ClassOf(%v) = %q, want %q", err, got, class)
		}
	}
	for _, class := range classes {
		if ClassOf(class) == ClassOther {
			t.Errorf("%v has no class", class)
		}
	}
}

// slow is a guard that takes a second for each verb and fails with its error.
type slow struct{ err error }

func (g slow) wait() error {
	time.Sleep(time.Second) // In a bubble it takes no time.
	return g.err
}
func (g slow) Arm(context.Context, string) error           { return g.wait() }
func (g slow) Raise(context.Context, Claim) error          { return g.wait() }
func (g slow) Read(context.Context) (Mark, error)          { return Mark(valid), g.wait() }
func (g slow) Adopt(context.Context, string, string) error { return g.wait() }

func TestObserved(t *testing.T) {
	t.Parallel()
	for _, err := range []error{nil, ErrFenced} {
		synctest.Test(t, func(t *testing.T) {
			var got []Operation
			o := ObserverFunc(func(op Operation) { got = append(got, op) })
			g := Observed(slow{err}, "orders", o)
			m, readErr := g.Read(t.Context())
			for _, gotErr := range []error{
				readErr, g.Arm(t.Context(), "i"), g.Raise(t.Context(), valid), g.Adopt(t.Context(), "i", "j"),
				ObserveWrite(o, "orders", slow{err}.wait),
			} {
				if gotErr != err {
					t.Errorf("error %v, want %v", gotErr, err)
				}
			}
			if m != Mark(valid) {
				t.Errorf("mark %v", m)
			}
			var want []Operation
			for _, v := range []Verb{VerbRead, VerbArm, VerbRaise, VerbAdopt, VerbWrite} {
				want = append(want, Operation{"orders", v, err, time.Second})
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateErrors()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestStandardLibraryOnly: whoever fences pays for nothing else.
func TestStandardLibraryOnly(t *testing.T) {
	t.Parallel()
	list := func(pkg string) []string {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps",
			"-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", pkg).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))
	}
	if diff := cmp.Diff([]string{"leasehold.dev/fencing"}, list("leasehold.dev/fencing")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if others := list("leasehold.dev/fencing/postgres"); len(others) < 2 {
		t.Errorf("an adapter depends on %q alone, so this test shows nothing", others)
	}
}
