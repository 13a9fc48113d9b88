// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package httpfence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"leasehold.dev/fencing"
)

// maxProblem bounds what is read of a refusal, in bytes.
const maxProblem = 64 << 10

// Transport is a http.RoundTripper that presents a claim with every request. A
// request that fails on the way matches fencing.ErrRetry if it was not sent, and
// fencing.ErrUnknown if it may have been; one that is answered is for Error to
// judge.
type Transport struct {
	// Base sends the requests. Default: http.DefaultTransport. It must not repeat
	// requests that it has sent, as the one of net/http does not for POST, PUT,
	// PATCH and DELETE.
	Base http.RoundTripper
	// Claim returns the claim for a request's context. Default:
	// fencing.FromContext.
	Claim func(ctx context.Context) (fencing.Claim, error)
}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip implements http.RoundTripper. Without a claim it sends nothing.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	claim, err := t.claim(r.Context())
	if err == nil {
		err = r.Context().Err()
	}
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // as a RoundTripper must
		}
		return nil, err
	}
	var s sending
	r = r.Clone(httptrace.WithClientTrace(r.Context(), s.trace()))
	SetClaim(r.Header, claim)
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	resp, err := base.RoundTrip(r)
	if err != nil {
		return nil, s.classify(r.Context(), claim, err)
	}
	return resp, nil
}

func (t *Transport) claim(ctx context.Context) (fencing.Claim, error) {
	from := t.Claim
	if from == nil {
		from = fencing.FromContext
	}
	claim, err := from(ctx)
	if err != nil {
		return fencing.Claim{}, err
	}
	return claim, claim.Validate()
}

// sending notes how far a request got.
type sending struct{ asked, connected atomic.Bool }

func (s *sending) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { s.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { s.connected.Store(true) },
	}
}

// classify gives the error of a request that was not answered its class. A base
// that does not trace may have sent it.
func (s *sending) classify(ctx context.Context, claim fencing.Claim, err error) error {
	for _, class := range []error{fencing.ErrNoClaim, fencing.ErrInvalidClaim, fencing.ErrRetry, fencing.ErrUnknown} {
		if errors.Is(err, class) { // a Transport below has found that out
			return err
		}
	}
	switch {
	case !s.asked.Load() || s.connected.Load():
		return &fencing.UnknownError{Mine: claim, Err: err}
	case ctx.Err() != nil: // the caller's doing
		return err
	default:
		return &fencing.RetryError{Mine: claim, Err: err}
	}
}

// Error returns what an answer says of the write that was asked for: nil if it
// was done, or at least not refused for its claim; an error with the class that
// the service gave it; or fencing.ErrUnknown for a server error that is not the
// service's own, since it may come from a gateway that gave up on a request which
// it has passed on. It reads the body only of refusals, and closes it then.
func Error(resp *http.Response) error {
	claim, _ := ParseClaim(resp.Request.Header) // the zero Claim says less, and no more than that
	if p, ok := readProblem(resp); ok {
		if k, known := kindNamed(p.Type); known {
			return k.back(claim, p.Newest.mark(), fmt.Errorf("%s: %s", resp.Status, p.Detail))
		}
	}
	if resp.StatusCode >= http.StatusInternalServerError {
		_ = resp.Body.Close()
		return &fencing.UnknownError{Mine: claim, Err: fmt.Errorf("the answer is %s, and not the service's own", resp.Status)}
	}
	return nil
}

func readProblem(resp *http.Response) (problem, bool) {
	media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || media != contentType || resp.StatusCode < http.StatusBadRequest {
		return problem{}, false
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	_ = resp.Body.Close()
	var p problem
	if err != nil || json.Unmarshal(body, &p) != nil {
		return problem{}, false
	}
	return p, true
}

// Mark is the mark of a service, at the URL where it has a MarkHandler.
type Mark struct {
	client *http.Client
	url    string
}

// NewMark returns the mark at a URL.
func NewMark(client *http.Client, url string) *Mark { return &Mark{client: client, url: url} }

// Raise is that of fencing.Guard.
func (m *Mark) Raise(ctx context.Context, claim fencing.Claim) error {
	if err := claim.Validate(); err != nil {
		return err
	}
	resp, err := m.do(fencing.NewContext(ctx, claim), http.MethodPost, claim)
	if unknown, ok := errors.AsType[*fencing.UnknownError](err); ok {
		return &fencing.RetryError{Mine: claim, Err: unknown.Err} // a raise can be repeated
	}
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("raise at %s: the answer is %s; is a MarkHandler there?", m.url, resp.Status)
	}
	return nil
}

// Read is that of fencing.Guard.
func (m *Mark) Read(ctx context.Context) (fencing.Mark, error) {
	resp, err := m.do(ctx, http.MethodGet, fencing.Claim{})
	if unknown, ok := errors.AsType[*fencing.UnknownError](err); ok {
		return fencing.Mark{}, &fencing.RetryError{Err: unknown.Err}
	}
	if err != nil {
		return fencing.Mark{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	var body markJSON
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxProblem)).Decode(&body); err != nil {
		return fencing.Mark{}, fmt.Errorf("read the mark at %s: the answer is %s: %w", m.url, resp.Status, err)
	}
	if mark := body.mark(); mark.Armed() {
		return mark, nil
	}
	return fencing.Mark{}, fmt.Errorf("read the mark at %s: the answer is %s and no mark; is a MarkHandler there?", m.url, resp.Status)
}

// do sends a request, and returns the error that its answer stands for.
func (m *Mark) do(ctx context.Context, method string, claim fencing.Claim) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, m.url, http.NoBody)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	var s sending
	r = r.WithContext(httptrace.WithClientTrace(ctx, s.trace()))
	if claim != (fencing.Claim{}) {
		SetClaim(r.Header, claim)
	}
	resp, err := m.client.Do(r)
	if err != nil {
		return nil, s.classify(ctx, claim, err)
	}
	return resp, Error(resp)
}
