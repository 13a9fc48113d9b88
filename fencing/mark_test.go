// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var classes = []error{ErrFenced, ErrNotRaised, ErrBehind, ErrForeign, ErrNotArmed, ErrRetry, ErrUnknown, ErrInvalidClaim}

func TestDecide(t *testing.T) {
	t.Parallel()
	mark := Mark{Issuer: "i", Token: 34, Holder: "b"}
	tests := []struct {
		name         string
		mark         Mark
		claim        Claim
		raise, write error
	}{
		{"the holder itself", mark, Claim{"i", 34, "b"}, nil, nil},
		{"newer", mark, Claim{"i", 35, "c"}, nil, ErrNotRaised},
		{"newer, same holder again", mark, Claim{"i", 35, "b"}, nil, ErrNotRaised},
		{"older", mark, Claim{"i", 33, "a"}, ErrFenced, ErrFenced},
		{"older term of the same holder", mark, Claim{"i", 33, "b"}, ErrFenced, ErrFenced},
		{"token granted twice", mark, Claim{"i", 34, "z"}, ErrFenced, ErrFenced},
		{"other issuer, greater token", mark, Claim{"j", 99, "b"}, ErrForeign, ErrForeign},
		{"other issuer, same token and holder", mark, Claim{"j", 34, "b"}, ErrForeign, ErrForeign},
		{"no mark", Mark{}, Claim{"i", 34, "b"}, ErrNotArmed, ErrNotArmed},
		{"no mark, but numbers left over", Mark{Token: 34, Holder: "b"}, Claim{"i", 34, "b"}, ErrNotArmed, ErrNotArmed},
		{"armed, never raised", Mark{Issuer: "i"}, Claim{"i", 1, "a"}, nil, ErrNotRaised},
		{"adopted back: old token", Mark{Issuer: "i", Token: 34}, Claim{"i", 34, "b"}, ErrFenced, ErrFenced},
		{"adopted back: new token", Mark{Issuer: "i", Token: 34}, Claim{"i", 35, "b"}, nil, ErrNotRaised},
		{"token zero against a fresh mark", Mark{Issuer: "i"}, Claim{"i", 0, "a"}, ErrInvalidClaim, ErrInvalidClaim},
		{"zero claim against a fresh mark", Mark{Issuer: "i"}, Claim{Issuer: "i"}, ErrInvalidClaim, ErrInvalidClaim},
		{"token above 2^62", mark, Claim{"i", MaxToken + 1, "a"}, ErrInvalidClaim, ErrInvalidClaim},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			checkClass(t, "raise", DecideRaise(tt.mark, tt.claim), tt.raise)
			checkClass(t, "write", DecideWrite(tt.mark, tt.claim), tt.write)
		})
	}
}

// TestDecideExhaustively applies every short sequence of raises and writes of
// a few claims to a mark, with the rule and with the two mistakes that such
// rules have in the field. Only the rule keeps the promise.
func TestDecideExhaustively(t *testing.T) {
	t.Parallel()
	if bad := explore(DecideRaise, DecideWrite); bad != "" {
		t.Errorf("the rule: %s", bad)
	}
	greaterOrEqual := func(m Mark, c Claim) error {
		if c.Token >= m.Token {
			return nil
		}
		return ErrFenced
	}
	if explore(DecideRaise, greaterOrEqual) == "" {
		t.Error("a write that compares the token with >= was not caught")
	}
	if explore(greaterOrEqual, DecideWrite) == "" {
		t.Error("a raise that ignores the holder was not caught")
	}
}

// explore returns the first broken promise in any sequence of four steps, or
// "": the mark never goes back nor changes hands at one token, and a write is
// accepted only from the last claim that raised.
func explore(raise, write func(Mark, Claim) error) string {
	claims := []Claim{{"i", 1, "a"}, {"i", 2, "b"}, {"i", 2, "z"}, {"i", 3, "a"}, {"j", 3, "a"}}
	var walk func(m Mark, last Claim, depth int) string
	walk = func(m Mark, last Claim, depth int) string {
		if depth == 0 {
			return ""
		}
		for _, c := range claims {
			if write(m, c) == nil && c != last {
				return fmt.Sprintf("%v wrote after %v had raised", c, last)
			}
			if raise(m, c) != nil {
				continue
			}
			if c.Token < m.Token || (c.Token == m.Token && c.Holder != m.Holder) || c.Issuer != m.Issuer {
				return fmt.Sprintf("%v was raised to %v", m, c)
			}
			if bad := walk(Mark(c), c, depth-1); bad != "" {
				return bad
			}
		}
		return ""
	}
	return walk(Mark{Issuer: "i"}, Claim{}, 4)
}

// TestErrorClasses: every type matches its own sentinel and no other, also
// when wrapped, and says what to do.
func TestErrorClasses(t *testing.T) {
	t.Parallel()
	mine, newest := Claim{"i", 33, "a"}, Mark{"i", 34, "b"}
	tests := []struct {
		err  error
		is   error
		text string
	}{
		{&FencedError{mine, newest}, ErrFenced, `the mark is token 34 of "b" (issuer i), and mine, token 33 of "a" (issuer i), is not above it; stop`},
		{&FencedError{Claim{"i", 34, "a"}, newest}, ErrFenced, "granted twice"},
		{&NotRaisedError{Claim{"i", 35, "c"}, newest}, ErrNotRaised, "raise it, then read"},
		{&BehindError{mine, newest}, ErrBehind, "report it"},
		{&ForeignError{Claim{"j", 35, "c"}, newest}, ErrForeign, "of issuer j; if that one"},
		{&NotArmedError{mine}, ErrNotArmed, "arm it"},
		{&RetryError{mine, io.EOF}, ErrRetry, "EOF"},
		{&UnknownError{mine, io.EOF}, ErrUnknown, "read it back by its nonce"},
	}
	for _, tt := range tests {
		wrapped := fmt.Errorf("resource %q: %w", "orders", tt.err)
		checkClass(t, tt.text, wrapped, tt.is)
		if !strings.Contains(wrapped.Error(), tt.text) {
			t.Errorf("%T says %q, which lacks %q", tt.err, wrapped, tt.text)
		}
	}
	if !errors.Is(&RetryError{Err: io.EOF}, io.EOF) || !errors.Is(&UnknownError{Err: io.EOF}, io.EOF) {
		t.Error("the store's own error is lost")
	}
}

func TestFencedErrorCollision(t *testing.T) {
	t.Parallel()
	for holder, want := range map[string]bool{"b": true, "": false} {
		e := &FencedError{Mine: Claim{"i", 34, "a"}, Newest: Mark{"i", 34, holder}}
		if got := e.Collision(); got != want {
			t.Errorf("mark held by %q: Collision() = %v, want %v", holder, got, want)
		}
	}
}

func TestConfirmBehind(t *testing.T) {
	t.Parallel()
	refusal := fmt.Errorf("resource: %w", &FencedError{Claim{"i", 33, "a"}, Mark{"i", 34, "b"}})
	tests := []struct {
		name     string
		err      error
		renewErr error
		want     error
		calls    int
	}{
		{"renewed after the refusal", refusal, nil, ErrBehind, 1},
		{"lease lost", refusal, io.EOF, ErrFenced, 1},
		{"not a refusal by a newer mark", &ForeignError{}, nil, ErrForeign, 0},
		{"no error", nil, nil, nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			err := ConfirmBehind(t.Context(), tt.err, func(context.Context) error { calls++; return tt.renewErr })
			checkClass(t, tt.name, err, tt.want)
			if calls != tt.calls {
				t.Errorf("renewed %d times, want %d", calls, tt.calls)
			}
			if behind, ok := errors.AsType[*BehindError](err); ok {
				want := &BehindError{Claim{"i", 33, "a"}, Mark{"i", 34, "b"}}
				if diff := cmp.Diff(want, behind); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// checkClass expects err to match want and none of the other classes.
func checkClass(t *testing.T, what string, err, want error) {
	t.Helper()
	if want == nil && err != nil {
		t.Errorf("%s: error %v, want none", what, err)
	}
	for _, class := range classes {
		if got := errors.Is(err, class); got != (class == want) {
			t.Errorf("%s: errors.Is(%v, %q) = %v", what, err, class, got)
		}
	}
}
