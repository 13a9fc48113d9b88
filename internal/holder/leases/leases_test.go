// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package leases_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"leasehold.dev/internal/holder/clock/clocktest"
	"leasehold.dev/internal/holder/leases"
)

const patience = 20 * time.Second

// server is an API server of whose every request the test decides.
type server struct {
	t        *testing.T
	requests chan *request
	client   *leases.Client
}

// request waits for the test to answer it.
type request struct {
	*http.Request
	body []byte
	w    http.ResponseWriter
	done chan struct{}
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, requests: make(chan *request)}
	end := make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		q := &request{Request: r, body: body, w: w, done: make(chan struct{})}
		select {
		case s.requests <- q:
		case <-end:
			return
		}
		select {
		case <-q.done:
		case <-r.Context().Done():
		case <-end:
		}
	}))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(func() {
		close(end)
		srv.CloseClientConnections()
		srv.Close()
	})
	client, err := leases.New(&rest.Config{Host: srv.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, "tester", "ns", "work")
	if err != nil {
		t.Fatal(err)
	}
	s.client = client
	return s
}

func (s *server) next() *request {
	s.t.Helper()
	select {
	case q := <-s.requests:
		return q
	case <-time.After(patience):
		s.t.Fatal("no request comes")
		return nil
	}
}

// answer ends the request.
func (q *request) answer(code int, body any) {
	q.write(code, body)
	close(q.done)
}

// write sends a part of the answer.
func (q *request) write(code int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	q.w.Header().Set("Content-Type", "application/json")
	if code != 0 {
		q.w.WriteHeader(code)
	}
	_, _ = q.w.Write(append(b, '\n'))
	q.w.(http.Flusher).Flush()
}

func object(version string) *coordinationv1.Lease {
	return &coordinationv1.Lease{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "work", UID: "uid", ResourceVersion: version}}
}

func list(version string, items ...*coordinationv1.Lease) *coordinationv1.LeaseList {
	l := &coordinationv1.LeaseList{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "LeaseList"},
		ListMeta: metav1.ListMeta{ResourceVersion: version}}
	for _, i := range items {
		l.Items = append(l.Items, *i)
	}
	return l
}

func event(kind string, o any) map[string]any { return map[string]any{"type": kind, "object": o} }

func status(code int, reason metav1.StatusReason) metav1.Status {
	return metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: int32(code), Reason: reason}
}

func TestUpdateCarriesItsPreconditionsAndIsTriedOnce(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	got := make(chan error, 1)
	go func() {
		_, err := s.client.Update(t.Context(), object("7"), patience)
		got <- err
	}()
	q := s.next()
	var sent coordinationv1.Lease
	if err := json.Unmarshal(q.body, &sent); err != nil {
		t.Fatal(err)
	}
	if q.Method != http.MethodPut || sent.UID != "uid" || sent.ResourceVersion != "7" {
		t.Errorf("%s of %+v", q.Method, sent.ObjectMeta)
	}
	if q.ProtoMajor != 1 {
		t.Errorf("%s: requests that time out do not take their connection with them", q.Proto)
	}
	q.w.Header().Set("Retry-After", "0")
	q.answer(http.StatusTooManyRequests, status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests))
	if err := <-got; !apierrors.IsTooManyRequests(err) {
		t.Errorf("error %v", err)
	}
	select {
	case q := <-s.requests:
		t.Errorf("tried again behind the caller's back: %s", q.URL)
	default:
	}
}

func TestUpdateWithoutPreconditionIsNotSent(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for _, l := range []*coordinationv1.Lease{object(""), {ObjectMeta: metav1.ObjectMeta{Name: "work", ResourceVersion: "7"}}} {
		if _, err := s.client.Update(t.Context(), l, patience); err == nil {
			t.Error("was sent")
		}
	}
}

func TestRequestAfterATimeoutTakesANewConnection(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	get := func(timeout time.Duration) chan error {
		got := make(chan error, 1)
		go func() {
			_, err := s.client.Get(t.Context(), timeout)
			got <- err
		}()
		return got
	}
	first := get(patience)
	q := s.next()
	connection := q.RemoteAddr
	q.answer(http.StatusOK, object("7"))
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	hanging := get(200 * time.Millisecond)
	if q = s.next(); q.RemoteAddr != connection {
		t.Fatal("connections are not kept, so this test shows nothing")
	}
	if err := <-hanging; err == nil {
		t.Fatal("did not time out")
	}
	third := get(patience)
	if q = s.next(); q.RemoteAddr == connection {
		t.Error("goes to the connection that does not answer")
	}
	q.answer(http.StatusOK, object("7"))
	if err := <-third; err != nil {
		t.Fatal(err)
	}
}

// watching starts a watcher on a clock of the test's.
func watching(t *testing.T, s *server) (*clocktest.Clock, <-chan leases.Change) {
	t.Helper()
	c := clocktest.New()
	changes := make(chan leases.Change, 16)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	w := &leases.Watcher{Client: s.client, Clock: c, Report: func(c leases.Change) { changes <- c }, Trouble: func(error) {}}
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return c, changes
}

func wantChange(t *testing.T, changes <-chan leases.Change, want string) {
	t.Helper()
	select {
	case c := <-changes:
		got := "deleted " + c.Version
		if c.Lease != nil {
			got = c.Lease.ResourceVersion
		}
		if c.Live {
			got = "live " + got
		}
		if got != want {
			t.Errorf("change %q, want %q", got, want)
		}
	case <-time.After(patience):
		t.Fatalf("no change, want %q", want)
	}
}

// open answers the list and begins the answer to the watch.
func (s *server) open(version string, items ...*coordinationv1.Lease) *request {
	s.t.Helper()
	return s.openFrom(s.next(), version, items...)
}

func (s *server) openFrom(q *request, version string, items ...*coordinationv1.Lease) *request {
	s.t.Helper()
	if v := q.URL.Query(); v.Get("watch") != "" || v.Get("resourceVersion") != "" || v.Get("fieldSelector") != "metadata.name=work" {
		s.t.Errorf("want a live list of one name, have %s", q.URL)
	}
	q.answer(http.StatusOK, list(version, items...))
	q = s.next()
	if v := q.URL.Query(); v.Get("watch") == "" || v.Get("resourceVersion") != version || v.Get("fieldSelector") != "metadata.name=work" {
		s.t.Errorf("want a watch of one name from %s, have %s", version, q.URL)
	}
	return q
}

func TestWatcherReportsInOrder(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	_, changes := watching(t, s)
	q := s.open("10")
	wantChange(t, changes, "live deleted ")
	q.write(http.StatusOK, event("ADDED", object("11")))
	wantChange(t, changes, "11")
	q.write(0, event("BOOKMARK", object("12")))
	q.write(0, event("MODIFIED", object("13")))
	wantChange(t, changes, "13")
	q.write(0, event("DELETED", object("14")))
	wantChange(t, changes, "deleted 14")
}

func TestSilentWatchIsDoubted(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	c, changes := watching(t, s)
	q := s.open("10", object("10"))
	wantChange(t, changes, "live 10")
	q.write(http.StatusOK, event("MODIFIED", object("11")))
	wantChange(t, changes, "11")
	// Bookmarks are a sign of life.
	for i := range 3 {
		armed(t, c)
		c.Advance(80 * time.Second)
		q.write(0, event("BOOKMARK", object(fmt.Sprint(20+i))))
		q.write(0, event("MODIFIED", object(fmt.Sprint(30+i))))
		wantChange(t, changes, fmt.Sprint(30+i))
	}
	armed(t, c)
	c.Advance(91 * time.Second)
	s.open("40", object("33"))
	wantChange(t, changes, "live 33")
}

func armed(t *testing.T, c *clocktest.Clock) {
	t.Helper()
	deadline := time.After(patience)
	for c.Armed() == 0 {
		select {
		case <-deadline:
			t.Fatal("nobody waits for the clock")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestWatchThatIsNotBegunIsDoubted(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	c, changes := watching(t, s)
	s.open("10", object("10")) // And no answer.
	wantChange(t, changes, "live 10")
	armed(t, c)
	c.Advance(91 * time.Second)
	s.openFrom(s.pauses(c), "10", object("10"))
}

// pauses moves the clock until the watcher has waited long enough after a
// failure and asks again; the request.
func (s *server) pauses(c *clocktest.Clock) *request {
	s.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case q := <-s.requests:
			return q
		case <-time.After(time.Millisecond):
			c.Advance(time.Second)
		case <-deadline:
			s.t.Fatal("no request comes")
		}
	}
}

func TestWatcherListsAgainAfterFailures(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(q *request){
		"end": func(q *request) { q.write(http.StatusOK, event("MODIFIED", object("11"))); close(q.done) },
		"410": func(q *request) {
			q.answer(http.StatusOK, event("ERROR", status(http.StatusGone, metav1.StatusReasonExpired)))
		},
		"denied": func(q *request) {
			q.answer(http.StatusForbidden, status(http.StatusForbidden, metav1.StatusReasonForbidden))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			c, changes := watching(t, s)
			fail(s.open("10", object("10")))
			wantChange(t, changes, "live 10")
			if name == "end" {
				wantChange(t, changes, "11")
			}
			s.openFrom(s.pauses(c), "12", object("12"))
			wantChange(t, changes, "live 12")
		})
	}
}
