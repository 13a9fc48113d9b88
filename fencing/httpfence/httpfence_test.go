// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package httpfence

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"leasehold.dev/fencing"
)

var mine = fencing.Claim{Issuer: issuer, Token: fencing.MaxToken, Holder: "pod-1_u1"}

func TestParseClaim(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		edit func(http.Header)
		is   error
	}{
		{"complete", func(http.Header) {}, nil},
		{"spelled in lower case on the way", func(h http.Header) {
			h.Del(FieldToken)
			h.Set("fencing-token", "4611686018427387904")
		}, nil},
		{"no token", func(h http.Header) { h.Del(FieldToken) }, fencing.ErrNoClaim},
		{"no holder", func(h http.Header) { h.Del(FieldHolder) }, fencing.ErrNoClaim},
		{"no issuer", func(h http.Header) { h.Del(FieldIssuer) }, fencing.ErrNoClaim},
		{"empty token", func(h http.Header) { h.Set(FieldToken, "") }, fencing.ErrNoClaim},
		{"two tokens", func(h http.Header) { h.Add(FieldToken, "43") }, fencing.ErrInvalidClaim},
		{"token zero", func(h http.Header) { h.Set(FieldToken, "0") }, fencing.ErrInvalidClaim},
		{"token with a sign", func(h http.Header) { h.Set(FieldToken, "+42") }, fencing.ErrInvalidClaim},
		{"tokens in one field", func(h http.Header) { h.Set(FieldToken, "42, 43") }, fencing.ErrInvalidClaim},
		{"holder with a space", func(h http.Header) { h.Set(FieldHolder, "a b") }, fencing.ErrInvalidClaim},
	}
	for _, tt := range tests {
		h := http.Header{}
		SetClaim(h, mine)
		tt.edit(h)
		got, err := ParseClaim(h)
		if !errors.Is(err, tt.is) || (tt.is == nil && got != mine) {
			t.Errorf("%s: %v, %v; want %v", tt.name, got, err, tt.is)
		}
	}
}

// TestRefusals: every error of a guard arrives at the client as what it was.
func TestRefusals(t *testing.T) {
	t.Parallel()
	newest := fencing.Mark{Issuer: issuer, Token: fencing.MaxToken - 1, Holder: "other"}
	store := errors.New("password of the database")
	tests := []struct {
		err    error
		status int
		want   error // nil: an error of no class
		equal  bool  // the very same error, with claim and mark
	}{
		{&fencing.FencedError{Mine: mine, Newest: newest}, 412, fencing.ErrFenced, true},
		{&fencing.ForeignError{Mine: mine, Newest: newest}, 412, fencing.ErrForeign, true},
		{&fencing.NotRaisedError{Mine: mine, Newest: newest}, 409, fencing.ErrNotRaised, true},
		{&fencing.NotArmedError{Mine: mine}, 409, fencing.ErrNotArmed, true},
		{&fencing.RetryError{Mine: mine, Err: store}, 503, fencing.ErrRetry, false},
		{&fencing.UnknownError{Mine: mine, Err: store}, 504, fencing.ErrUnknown, false},
		{store, 500, nil, false},
	}
	for _, tt := range tests {
		resp := ask(t, func(http.ResponseWriter, *http.Request, fencing.Claim) error { return tt.err })
		if resp.StatusCode != tt.status || resp.Header.Get("Content-Type") != contentType {
			t.Errorf("%v: status %d with %q", tt.err, resp.StatusCode, resp.Header.Get("Content-Type"))
		}
		got := Error(resp)
		checkClass(t, tt.err.Error(), got, tt.want)
		if tt.equal {
			if diff := cmp.Diff(tt.err, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		if got == nil || strings.Contains(got.Error(), "password") {
			t.Errorf("%v: the client gets %v", tt.err, got)
		}
		if mark := markOf(tt.err); mark.Armed() && resp.Header.Get(FieldToken) != "4611686018427387903" {
			t.Errorf("%v: the answer's token is %q, want the mark's", tt.err, resp.Header.Get(FieldToken))
		}
	}
}

// TestOmittedClaim: without a claim the handler is not reached.
func TestOmittedClaim(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(Handler(func(http.ResponseWriter, *http.Request, fencing.Claim) error {
		t.Error("the handler was called")
		return nil
	}))
	defer server.Close()
	for _, tt := range []struct {
		token  string
		status int
		want   error
	}{{"", 428, fencing.ErrNoClaim}, {"x", 400, fencing.ErrInvalidClaim}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, http.NoBody)
		must(t, err)
		SetClaim(r.Header, mine)
		r.Header.Set(FieldToken, tt.token)
		resp, err := http.DefaultClient.Do(r)
		must(t, err)
		if resp.StatusCode != tt.status {
			t.Errorf("token %q: status %d, want %d", tt.token, resp.StatusCode, tt.status)
		}
		checkClass(t, "token "+tt.token, Error(resp), tt.want)
		resp.Body.Close()
	}
}

// TestAnswers: what is not the service's own refusal says only what it can.
func TestAnswers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		status int
		media  string
		body   string
		want   error
		none   bool // no error at all
	}{
		{"success", 200, "", "done", nil, true},
		{"a problem of the application", 404, contentType, `{"type":"https://example.com/no-such-row"}`, nil, true},
		{"a gateway that gave up", 504, "text/html", "<html>", fencing.ErrUnknown, false},
		{"a gateway without a backend", 503, "", "", fencing.ErrUnknown, false},
		{"a problem of a gateway", 502, contentType, `{"type":"about:blank"}`, fencing.ErrUnknown, false},
		{"a problem that is no JSON", 500, contentType, `{`, fencing.ErrUnknown, false},
		{"ours, with more in its type", 412, contentType + "; charset=utf-8", `{"type":"` + typePrefix + `fenced","new":1}`, fencing.ErrFenced, false},
	}
	for _, tt := range tests {
		resp := ask(t, func(w http.ResponseWriter, _ *http.Request, _ fencing.Claim) error {
			w.Header().Set("Content-Type", tt.media)
			w.WriteHeader(tt.status)
			_, err := io.WriteString(w, tt.body)
			return err
		})
		err := Error(resp)
		checkClass(t, tt.name, err, tt.want)
		if (err == nil) != tt.none {
			t.Errorf("%s: error %v", tt.name, err)
		}
		if tt.none {
			if body, err := io.ReadAll(resp.Body); string(body) != tt.body && !strings.HasPrefix(tt.body, "{") {
				t.Errorf("%s: the body that is left is %q, %v", tt.name, body, err)
			}
		}
	}
}

// TestAnswerBeforeError: an answer that began before the error must not pass
// for a success.
func TestAnswerBeforeError(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(Handler(func(w http.ResponseWriter, _ *http.Request, _ fencing.Claim) error {
		_, _ = io.WriteString(w, "done")
		return &fencing.FencedError{}
	}))
	defer server.Close()
	server.Config.ErrorLog = nil
	resp, err := send(t.Context(), t, server.URL, nil)
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	if err == nil {
		t.Error("the client got a whole answer")
	}
}

// TestTransport: a request that fails on the way is told by whether it was sent.
func TestTransport(t *testing.T) {
	t.Parallel()
	var accept net.ListenConfig
	l, err := accept.Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	closed := "http://" + l.Addr().String()
	must(t, l.Close())
	dropping := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer dropping.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()

	checkClass(t, "nobody listens", fails(t.Context(), t, closed, nil), fencing.ErrRetry)
	checkClass(t, "broken off", fails(t.Context(), t, dropping.URL, nil), fencing.ErrUnknown)
	err = fails(ended, t, closed, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	checkClass(t, "context ended before", err, nil)
	checkClass(t, "a base that does not say whether it has sent", fails(t.Context(), t, closed, untraced{}), fencing.ErrUnknown)
	resp, err := (&Transport{}).RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodPost, dropping.URL, http.NoBody))
	checkClass(t, "no claim", err, fencing.ErrNoClaim)
	if err == nil {
		resp.Body.Close()
	}

	client := &http.Client{Transport: &Transport{}}
	_, err = NewMark(client, closed).Read(t.Context())
	checkClass(t, "mark without a claim in a client that needs one", err, fencing.ErrNoClaim)
	for _, m := range []*Mark{NewMark(http.DefaultClient, closed), NewMark(http.DefaultClient, dropping.URL)} {
		checkClass(t, "raise", m.Raise(t.Context(), mine), fencing.ErrRetry)
		_, err := m.Read(t.Context())
		checkClass(t, "read", err, fencing.ErrRetry)
	}
}

type untraced struct{}

func (untraced) RoundTrip(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }

// TestMarkHandler reads and raises a mark over HTTP, and nothing more.
func TestMarkHandler(t *testing.T) {
	t.Parallel()
	s := newService(t)
	st, err := s.open("orders")
	must(t, err)
	url := "http://" + s.addr + "/orders/mark"
	m := NewMark(http.DefaultClient, url)
	ctx := t.Context()
	_, err = m.Read(ctx)
	checkClass(t, "not armed", err, fencing.ErrNotArmed)
	checkClass(t, "not armed", m.Raise(ctx, mine), fencing.ErrNotArmed)
	must(t, st.Arm(ctx, issuer))
	for range 2 {
		must(t, m.Raise(ctx, mine))
	}
	if got, err := m.Read(ctx); err != nil || got != fencing.Mark(mine) {
		t.Errorf("the mark is %v, %v", got, err)
	}
	checkClass(t, "older", m.Raise(ctx, claim(33)), fencing.ErrFenced)
	checkClass(t, "malformed", m.Raise(ctx, fencing.Claim{}), fencing.ErrInvalidClaim)
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPatch} {
		r, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
		must(t, err)
		SetClaim(r.Header, mine)
		resp, err := http.DefaultClient.Do(r)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: status %s", method, resp.Status)
		}
	}
	for _, path := range []string{"/orders/nothing", "/orders/lenient"} { // something else is there
		other := NewMark(http.DefaultClient, "http://"+s.addr+path)
		if err := other.Raise(ctx, mine); path == "/orders/nothing" && (err == nil || !strings.Contains(err.Error(), "MarkHandler")) {
			t.Errorf("%s: raise: %v", path, err)
		}
		if _, err := other.Read(ctx); err == nil {
			t.Errorf("%s: a mark was read", path)
		}
	}
}

func ask(t *testing.T, f HandlerFunc) *http.Response {
	t.Helper()
	server := httptest.NewServer(Handler(f))
	t.Cleanup(server.Close)
	resp, err := send(t.Context(), t, server.URL, nil)
	must(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// fails sends a request and returns its error.
func fails(ctx context.Context, t *testing.T, url string, base http.RoundTripper) error {
	t.Helper()
	resp, err := send(ctx, t, url, base)
	if err == nil {
		resp.Body.Close()
	}
	return err
}

func send(ctx context.Context, t *testing.T, url string, base http.RoundTripper) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(fencing.NewContext(ctx, mine), http.MethodPost, url, http.NoBody)
	must(t, err)
	return (&http.Client{Transport: &Transport{Base: base}}).Do(r)
}

// checkClass expects err to match want and none of the other classes.
func checkClass(t *testing.T, what string, err, want error) {
	t.Helper()
	for _, class := range []error{
		fencing.ErrFenced, fencing.ErrNotRaised, fencing.ErrForeign, fencing.ErrNotArmed, fencing.ErrRetry, fencing.ErrUnknown,
		fencing.ErrNoClaim, fencing.ErrInvalidClaim,
	} {
		if got := errors.Is(err, class); got != (class == want) {
			t.Errorf("%s: errors.Is(%v, %q) = %v", what, err, class, got)
		}
	}
}
