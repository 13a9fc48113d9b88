// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faultproxy stands between one client and a real API server, and fails
// as networks and API servers do: it delays requests and replies, loses either,
// answers with errors, and lets connections hang.
//
// A reply that is lost was sent by the API server: what the request asked for is
// committed. That is the fault which no fake shows honestly.
package faultproxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// Fault is what happens to one request.
type Fault struct {
	// Before and After delay the request and its reply.
	Before time.Duration
	After  time.Duration
	// Status answers instead of the API server, unless it is zero.
	Status int
	// Lost says which way the exchange does not survive.
	Lost Lost
}

// Lost is a way to lose an exchange.
type Lost int

const (
	// Neither way is lost.
	Neither Lost = iota
	// Request is lost: the connection breaks and nothing reaches the API server.
	Request
	// Reply is lost: the API server has done what was asked; the connection breaks.
	Reply
	// Hangs is Request without a sign: the client waits until it gives up.
	Hangs
	// ReplyHangs is Reply without a sign.
	ReplyHangs
)

// Proxy is what one client talks to.
type Proxy struct {
	server *httptest.Server
	target http.RoundTripper
	to     *url.URL

	mu      sync.Mutex
	decide  func(*http.Request) Fault
	freezes int
	frozen  chan struct{} // closed when what is frozen may go on; nil: nothing is
	seen    map[string]int
}

// New starts a proxy that lets everything pass.
func New(t testing.TB, target *rest.Config) *Proxy {
	t.Helper()
	to, _, err := rest.DefaultServerUrlFor(target)
	if err != nil {
		t.Fatal(err)
	}
	tls, err := rest.TLSConfigFor(target)
	if err != nil {
		t.Fatal(err)
	}
	// One for each proxy, so that none closes another's connections.
	transport := &http.Transport{TLSClientConfig: tls, MaxIdleConnsPerHost: 8}
	t.Cleanup(transport.CloseIdleConnections)
	p := &Proxy{target: transport, to: to, seen: map[string]int{}}
	p.server = httptest.NewServer(p)
	t.Cleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

// Config reaches the API server through the proxy, as whoever the proxy's target
// is.
func (p *Proxy) Config() *rest.Config { return &rest.Config{Host: p.server.URL, QPS: -1} }

// Set makes f decide about each request from now on; nil lets everything pass. f
// is called by one goroutine at a time.
func (p *Proxy) Set(f func(*http.Request) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.decide = f
}

// Freeze lets every byte hang, on watches, too, as a peer that died does; until
// as many calls of Thaw.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.freezes++; p.freezes == 1 {
		p.frozen = make(chan struct{})
	}
}

// Thaw undoes one Freeze.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.freezes--; p.freezes == 0 {
		close(p.frozen)
		p.frozen = nil
	}
}

// Break ends all connections, and the watches on them.
func (p *Proxy) Break() { p.server.CloseClientConnections() }

// Seen is how many requests of a method came; a watch counts as "WATCH".
func (p *Proxy) Seen(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[method]
}

func (p *Proxy) fault(r *http.Request) Fault {
	method := r.Method
	if r.URL.Query().Get("watch") != "" {
		method = "WATCH"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[method]++
	if p.decide == nil {
		return Fault{}
	}
	return p.decide(r)
}

// ServeHTTP carries one exchange.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := p.fault(r)
	ctx := r.Context()
	if r.Method != http.MethodGet {
		ctx = context.WithoutCancel(ctx) // Who gives up does not take back what was sent.
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || !p.pass(ctx, f.Before) {
		panic(http.ErrAbortHandler)
	}
	switch {
	case f.Lost == Request:
		panic(http.ErrAbortHandler)
	case f.Lost == Hangs:
		<-r.Context().Done()
		return
	case f.Status != 0:
		answer(w, f.Status)
		return
	}
	p.forward(w, r, r.Clone(ctx), body, f)
}

func (p *Proxy) forward(w http.ResponseWriter, r, out *http.Request, body []byte, f Fault) {
	out.URL.Scheme, out.URL.Host, out.Host, out.RequestURI = p.to.Scheme, p.to.Host, "", ""
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	reply, err := p.target.RoundTrip(out)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = reply.Body.Close() }()
	switch {
	case f.Lost == Reply || !p.pass(r.Context(), f.After):
		panic(http.ErrAbortHandler)
	case f.Lost == ReplyHangs:
		<-r.Context().Done()
		return
	}
	for key, values := range reply.Header {
		w.Header()[key] = values
	}
	w.WriteHeader(reply.StatusCode)
	p.copy(r.Context(), w, reply.Body)
}

func (p *Proxy) copy(ctx context.Context, w http.ResponseWriter, from io.Reader) {
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	b := make([]byte, 16<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			if !p.pass(ctx, 0) {
				panic(http.ErrAbortHandler)
			}
			if _, err := w.Write(b[:n]); err != nil {
				return
			}
			_ = flush.Flush()
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// pass waits for the delay and for a thaw. It reports false when the client is
// gone.
func (p *Proxy) pass(ctx context.Context, delay time.Duration) bool {
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return false
		}
	}
	for {
		p.mu.Lock()
		frozen := p.frozen
		p.mu.Unlock()
		if frozen == nil {
			return ctx.Err() == nil
		}
		select {
		case <-frozen:
		case <-ctx.Done():
			return false
		}
	}
}

// answer is an error as the API server gives it.
func answer(w http.ResponseWriter, status int) {
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"made up by a test","code":`+strconv.Itoa(status)+`}`)
}
