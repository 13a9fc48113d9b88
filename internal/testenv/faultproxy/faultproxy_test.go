// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package faultproxy_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"leasehold.dev/internal/testenv/faultproxy"
)

// target counts what reaches it, and tells on a stream whenever it is asked to.
type target struct {
	*httptest.Server
	reached atomic.Int32
	lines   chan string
}

func newTarget(t *testing.T) *target {
	t.Helper()
	s := &target{lines: make(chan string)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.reached.Add(1)
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(append(body, '\n'))
		if r.URL.Query().Get("watch") == "" {
			return
		}
		for {
			_ = http.NewResponseController(w).Flush()
			select {
			case l := <-s.lines:
				_, _ = io.WriteString(w, l+"\n")
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

func put(ctx context.Context, p *faultproxy.Proxy) (int, string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, p.Config().Host+"/x?a=b", strings.NewReader("hello"))
	if err != nil {
		return 0, "", err
	}
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	return reply.StatusCode, string(body), err
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault   faultproxy.Fault
		status  int // of the answer; zero: none
		reached int32
	}{
		"none":           {faultproxy.Fault{}, 200, 1},
		"delays":         {faultproxy.Fault{Before: time.Millisecond, After: time.Millisecond}, 200, 1},
		"throttled":      {faultproxy.Fault{Status: 429}, 429, 0},
		"broken":         {faultproxy.Fault{Status: 503}, 503, 0},
		"request lost":   {faultproxy.Fault{Lost: faultproxy.Request}, 0, 0},
		"reply lost":     {faultproxy.Fault{Lost: faultproxy.Reply}, 0, 1},
		"request hangs":  {faultproxy.Fault{Lost: faultproxy.Hangs}, 0, 0},
		"reply hangs":    {faultproxy.Fault{Lost: faultproxy.ReplyHangs}, 0, 1},
		"late, and lost": {faultproxy.Fault{Before: 300 * time.Millisecond}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTarget(t)
			p := faultproxy.New(t, &rest.Config{Host: s.URL})
			p.Set(func(*http.Request) faultproxy.Fault { return tc.fault })
			patience := 200 * time.Millisecond
			if tc.status != 0 {
				patience = 20 * time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			status, body, err := put(ctx, p)
			if status != tc.status || (err == nil) != (tc.status != 0) {
				t.Errorf("status %d, error %v; want status %d", status, err, tc.status)
			}
			if tc.status == 200 && body != "hello\n" {
				t.Errorf("body %q", body)
			}
			deadline := time.After(20 * time.Second)
			for tick := time.NewTicker(5 * time.Millisecond); s.reached.Load() != tc.reached; {
				select {
				case <-tick.C:
				case <-deadline:
					t.Fatalf("%d requests reached the server, want %d", s.reached.Load(), tc.reached)
				}
			}
			if got := p.Seen(http.MethodPut); got < 1 {
				t.Errorf("the proxy has seen %d", got)
			}
		})
	}
}

func TestFreezeHoldsAWatch(t *testing.T) {
	t.Parallel()
	s := newTarget(t)
	p := faultproxy.New(t, &rest.Config{Host: s.URL})
	reply, err := http.Get(p.Config().Host + "/x?watch=1") //nolint:bodyclose // It is closed below.
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(reply.Body); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	next := func(want string) {
		t.Helper()
		select {
		case got := <-lines:
			if got != want {
				t.Errorf("line %q, want %q", got, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("no line %q", want)
		}
	}
	next("")
	s.lines <- "one"
	next("one")
	p.Freeze()
	s.lines <- "two"
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := put(ctx, p); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a frozen proxy answers: %v", err)
	}
	select {
	case l := <-lines:
		t.Errorf("a frozen proxy passes %q", l)
	default:
	}
	p.Thaw()
	next("two")
	p.Break()
	if _, open := <-lines; open {
		t.Error("the watch goes on")
	}
	if p.Seen("WATCH") != 1 {
		t.Errorf("%d watches", p.Seen("WATCH"))
	}
}
