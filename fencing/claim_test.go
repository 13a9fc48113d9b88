// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var valid = Claim{Issuer: "c1/shop/web", Token: 42, Holder: "web-0_u1"}

func TestClaimValidate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		edit func(*Claim)
		want string // part of the error; "" means valid
	}{
		{"as granted", func(*Claim) {}, ""},
		{"first token", func(c *Claim) { c.Token = 1 }, ""},
		{"greatest token", func(c *Claim) { c.Token = MaxToken }, ""},
		{"token zero is the mark that nobody raised", func(c *Claim) { c.Token = 0 }, "token 0"},
		{"negative token", func(c *Claim) { c.Token = -1 }, "token -1"},
		{"token above 2^62", func(c *Claim) { c.Token = MaxToken + 1 }, "2^62"},
		{"no issuer", func(c *Claim) { c.Issuer = "" }, "issuer is empty"},
		{"no holder", func(c *Claim) { c.Holder = "" }, "holder is empty"},
		{"holder breaks a header", func(c *Claim) { c.Holder = "a\r\nb" }, "not printable"},
		{"holder with a space", func(c *Claim) { c.Holder = "a b" }, "not printable"},
		{"issuer not ASCII", func(c *Claim) { c.Issuer = "ü" }, "not printable"},
		{"issuer too long", func(c *Claim) { c.Issuer = strings.Repeat("i", 513) }, "at most 512"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := valid
			tt.edit(&c)
			checkError(t, c.Validate(), ErrInvalidClaim, tt.want)
		})
	}
}

func TestParseToken(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]int64{"1": 1, "42": 42, "4611686018427387904": MaxToken} {
		if got, err := ParseToken(s); got != want || err != nil {
			t.Errorf("ParseToken(%q) = %d, %v; want %d", s, got, err, want)
		}
	}
	for _, s := range []string{
		"", "0", "-1", "+1", "01", " 1", "1 ", "1\n", "0x1", "1_0", "1e3", "1.0", "١",
		"4611686018427387905", "9223372036854775808", "340282366920938463463374607431768211455",
	} {
		if got, err := ParseToken(s); got != 0 || !errors.Is(err, ErrInvalidClaim) {
			t.Errorf("ParseToken(%q) = %d, %v; want ErrInvalidClaim", s, got, err)
		}
	}
}

// FuzzParseToken: whatever is accepted is the one spelling of its number.
func FuzzParseToken(f *testing.F) {
	for _, s := range []string{"1", "0", "01", "+1", "4611686018427387904", "4611686018427387905"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseToken(s)
		if err == nil && (n < 1 || n > MaxToken || strconv.FormatInt(n, 10) != s) {
			t.Fatalf("ParseToken(%q) = %d", s, n)
		}
	})
}

func TestFromEnv(t *testing.T) {
	full := map[string]string{EnvToken: "42", EnvHolder: valid.Holder, EnvIssuer: valid.Issuer}
	tests := []struct {
		name  string
		set   map[string]string // over full
		unset string
		is    error
		want  string
	}{
		{name: "complete"},
		{name: "token not set", unset: EnvToken, is: ErrNoClaim, want: "FENCING_TOKEN is not set; run"},
		{name: "holder not set", unset: EnvHolder, is: ErrNoClaim, want: "FENCING_HOLDER is not set"},
		{name: "issuer not set", unset: EnvIssuer, is: ErrNoClaim, want: "FENCING_ISSUER is not set"},
		{name: "token from a missing annotation", set: map[string]string{EnvToken: ""}, is: ErrNoClaim,
			want: "FENCING_TOKEN is set but empty: the pod annotation that it is taken from was missing"},
		{name: "holder from a missing annotation", set: map[string]string{EnvHolder: ""}, is: ErrNoClaim, want: "leasehold.dev/lease"},
		{name: "issuer from a missing annotation", set: map[string]string{EnvIssuer: ""}, is: ErrNoClaim, want: "set but empty"},
		{name: "token zero", set: map[string]string{EnvToken: "0"}, is: ErrInvalidClaim, want: "FENCING_TOKEN"},
		{name: "token not canonical", set: map[string]string{EnvToken: "042"}, is: ErrInvalidClaim, want: `"042"`},
		{name: "holder malformed", set: map[string]string{EnvHolder: "a b"}, is: ErrInvalidClaim, want: "FENCING_HOLDER"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, vars := range []map[string]string{full, tt.set} {
				for k, v := range vars {
					t.Setenv(k, v)
				}
			}
			if tt.unset != "" {
				if err := os.Unsetenv(tt.unset); err != nil { // t.Setenv above restores it
					t.Fatal(err)
				}
			}
			got, err := FromEnv()
			checkError(t, err, tt.is, tt.want)
			want := valid
			if tt.is != nil {
				want = Claim{}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("claim (-want +got):\n%s", diff)
			}
		})
	}
}

func TestContext(t *testing.T) {
	t.Parallel()
	_, err := FromContext(t.Context())
	checkError(t, err, ErrNoClaim, "fencing.NewContext")

	outer := NewContext(t.Context(), Claim{Issuer: "i", Token: 1, Holder: "h"})
	got, err := FromContext(NewContext(outer, valid))
	if err != nil || got != valid {
		t.Errorf("FromContext = %v, %v; want the innermost claim, %v", got, err, valid)
	}
}

func ExampleClaim_String() {
	fmt.Println(Claim{Issuer: "c1/shop/web", Token: 42, Holder: "web-0_u1"})
	// Output: token 42 of "web-0_u1" (issuer c1/shop/web)
}

func ExampleFromContext() {
	ctx := NewContext(context.Background(), Claim{Issuer: "c1/shop/web", Token: 42, Holder: "web-0_u1"})
	claim, err := FromContext(ctx)
	fmt.Println(claim.Token, err)
	// Output: 42 <nil>
}

// checkError expects an error that matches is and mentions text, or none if is
// or text is empty.
func checkError(t *testing.T, err, is error, text string) {
	t.Helper()
	if is == nil || text == "" {
		if err != nil {
			t.Fatalf("error %v, want none", err)
		}
		return
	}
	if !errors.Is(err, is) || !strings.Contains(err.Error(), text) {
		t.Fatalf("error %v; want %q with %q", err, is, text)
	}
}
