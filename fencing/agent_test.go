// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// leases are texts of an agent, with the class and a part of the error; none
// means that they have the valid claim.
var leases = []struct {
	name, text string
	is         error
	want       string
}{
	{"token as a string", `{"held":true,"token":"42","holder":"web-0_u1","issuer":"c1/shop/web"}`, nil, ""},
	{"token as a number", `{"held":true,"token":42,"holder":"web-0_u1","issuer":"c1/shop/web","expiresInSeconds":9.5}`, nil, ""},
	{"not held", `{"held":false,"token":"42","holder":"web-0_u1","issuer":"c1/shop/web"}`, ErrNoClaim, "not held"},
	{"held not said", `{"token":"42","holder":"web-0_u1","issuer":"c1/shop/web"}`, ErrNoClaim, "not held"},
	{"empty", "", ErrNoClaim, "empty"},
	{"no token", `{"held":true,"holder":"web-0_u1","issuer":"c1/shop/web"}`, ErrInvalidClaim, `token ""`},
	{"token null", `{"held":true,"token":null,"holder":"web-0_u1","issuer":"c1/shop/web"}`, ErrInvalidClaim, "token"},
	{"token zero", `{"held":true,"token":0,"holder":"web-0_u1","issuer":"c1/shop/web"}`, ErrInvalidClaim, `token "0"`},
	{"token in another notation", `{"held":true,"token":4.2e1,"holder":"web-0_u1","issuer":"c1/shop/web"}`, ErrInvalidClaim, `"4.2e1"`},
	{"token above 2^62", `{"held":true,"token":4611686018427387905,"holder":"web-0_u1","issuer":"c1/shop/web"}`, ErrInvalidClaim, "2^62"},
	{"token of another type", `{"held":true,"token":[42],"holder":"web-0_u1","issuer":"c1/shop/web"}`, ErrInvalidClaim, "no JSON of a lease"},
	{"no holder", `{"held":true,"token":"42","issuer":"c1/shop/web"}`, ErrInvalidClaim, "holder is empty"},
	{"no issuer", `{"held":true,"token":"42","holder":"web-0_u1"}`, ErrInvalidClaim, "issuer is empty"},
	{"cut off", `{"held":true,"token":"42`, ErrInvalidClaim, "no JSON of a lease"},
	{"two leases", `{"held":true,"token":"42","holder":"web-0_u1","issuer":"c1/shop/web"}{}`, ErrInvalidClaim, "no JSON of a lease"},
	{"endless", strings.Repeat(" ", maxLease+1), ErrInvalidClaim, "more than"},
}

func TestFromFile(t *testing.T) {
	t.Parallel()
	for _, tt := range leases {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "lease.json")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := FromFile(path)
			checkClaim(t, got, err, tt.is, tt.want)
		})
	}
	t.Run("no file", func(t *testing.T) {
		t.Parallel()
		got, err := FromFile(filepath.Join(t.TempDir(), "lease.json"))
		checkClaim(t, got, err, ErrNoClaim, "there is no file")
	})
	t.Run("a directory", func(t *testing.T) {
		t.Parallel()
		if _, err := FromFile(t.TempDir()); err == nil || errors.Is(err, ErrNoClaim) {
			t.Errorf("error %v, want the system's", err)
		}
	})
}

func TestFromAgent(t *testing.T) {
	t.Parallel()
	for _, tt := range leases {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodGet || r.URL.Path != "/lease" {
					t.Errorf("%s %s", r.Method, r.URL)
				}
				_, _ = w.Write([]byte(tt.text))
			}))
			defer s.Close()
			got, err := FromAgent(t.Context(), s.Client(), s.URL+"/lease")
			checkClaim(t, got, err, tt.is, tt.want)
		})
	}
	t.Run("status", func(t *testing.T) {
		t.Parallel()
		s := httptest.NewServer(http.NotFoundHandler())
		defer s.Close()
		got, err := FromAgent(t.Context(), nil, s.URL+"/lease")
		checkClaim(t, got, err, ErrNoClaim, "404")
	})
	t.Run("no agent", func(t *testing.T) {
		t.Parallel()
		s := httptest.NewServer(http.NotFoundHandler())
		s.Close()
		if _, err := FromAgent(t.Context(), nil, s.URL); err == nil || errors.Is(err, ErrNoClaim) {
			t.Errorf("error %v, want the client's", err)
		}
	})
}

func checkClaim(t *testing.T, got Claim, err, is error, text string) {
	t.Helper()
	if is != nil {
		if !errors.Is(err, is) || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v; want %q with %q", err, is, text)
		}
		return
	}
	if err != nil || got != valid {
		t.Errorf("claim %v, error %v; want %v", got, err, valid)
	}
}
