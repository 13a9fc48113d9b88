// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package leaderelect_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/internal/testenv/apiserver"
	"leasehold.dev/internal/testenv/faultproxy"
	"leasehold.dev/leaderelect"
)

// match is a contest of two electors for one Lease on the real API server: a
// leads, behind a proxy, and b waits.
type match struct {
	*contest
	proxy *faultproxy.Proxy
	a, b  *player
}

type player struct {
	t      *testing.T
	leads  chan *leaderelect.Term
	result chan error
	stop   context.CancelFunc
}

func newMatch(t *testing.T) *match {
	t.Helper()
	m := &match{contest: newContest(t, apiserver.Namespace(t), 0), proxy: faultproxy.New(t, apiserver.Config(t))}
	m.a = m.play(t, elector(t, m.proxy.Config(), m.contest, "a"))
	m.a.term()
	m.b = m.play(t, elector(t, apiserver.Config(t), m.contest, "b"))
	return m
}

func (m *match) play(t *testing.T, e *leaderelect.Elector) *player {
	ctx, stop := context.WithCancel(t.Context())
	p := &player{t: t, leads: make(chan *leaderelect.Term, 8), result: make(chan error, 1), stop: stop}
	go func() {
		p.result <- e.Run(ctx, func(ctx context.Context, term *leaderelect.Term) error {
			p.leads <- term
			m.history.lead(ctx, e.Identity(), term.Claim().Token, term.Valid)
			return nil
		})
	}()
	t.Cleanup(stop)
	return p
}

func (p *player) term() *leaderelect.Term {
	p.t.Helper()
	select {
	case term := <-p.leads:
		return term
	case err := <-p.result:
		p.t.Fatalf("does not lead: %v", err)
	case <-time.After(patience):
		p.t.Fatal("does not lead")
	}
	return nil
}

func (p *player) wantResult(want error) {
	p.t.Helper()
	select {
	case err := <-p.result:
		if !errors.Is(err, want) {
			p.t.Errorf("ended with %v, want %v", err, want)
		}
	case <-time.After(patience):
		p.t.Fatal("does not end")
	}
}

func (m *match) wantOrder(t *testing.T) {
	t.Helper()
	m.a.stop()
	m.b.stop()
	if j := m.history.judge(); len(j.doubled)+len(j.overlaps)+len(j.regressions) > 0 {
		t.Errorf("%+v", j)
	}
}

func all(f faultproxy.Fault) func(*http.Request) faultproxy.Fault {
	return func(*http.Request) faultproxy.Fault { return f }
}

// TestLossThroughTheAPIServer: each way in which a holder can be cut off from the
// real API server ends its term before the next begins.
func TestLossThroughTheAPIServer(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(p *faultproxy.Proxy){
		"throttled with 429":      func(p *faultproxy.Proxy) { p.Set(all(faultproxy.Fault{Status: 429})) },
		"server errors":           func(p *faultproxy.Proxy) { p.Set(all(faultproxy.Fault{Status: 503})) },
		"a dead peer":             (*faultproxy.Proxy).Freeze,
		"requests hang":           func(p *faultproxy.Proxy) { p.Set(all(faultproxy.Fault{Lost: faultproxy.Hangs})); p.Break() },
		"connections are refused": func(p *faultproxy.Proxy) { p.Set(all(faultproxy.Fault{Lost: faultproxy.Request})); p.Break() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMatch(t)
			fail(m.proxy)
			m.b.term()
			m.a.wantResult(leaderelect.ErrLost)
			if name == "a dead peer" {
				m.proxy.Thaw()
			}
			m.wantOrder(t)
		})
	}
}

// TestNoLossThroughTheAPIServer: what passes within the deadline is no loss.
func TestNoLossThroughTheAPIServer(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(m *match){
		"one reply in two is lost after the commit": func(m *match) {
			n := 0
			m.proxy.Set(func(r *http.Request) faultproxy.Fault {
				if r.Method == http.MethodPut {
					if n++; n%2 == 1 {
						return faultproxy.Fault{Lost: faultproxy.Reply}
					}
				}
				return faultproxy.Fault{}
			})
		},
		"a 429 now and then": func(m *match) {
			n := 0
			m.proxy.Set(func(*http.Request) faultproxy.Fault {
				if n++; n%3 == 1 {
					return faultproxy.Fault{Status: 429}
				}
				return faultproxy.Fault{}
			})
		},
		"watches break":   func(m *match) { m.proxy.Break() },
		"edits of others": func(m *match) { m.edits(10) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMatch(t)
			before := m.proxy.Seen(http.MethodPut)
			fail(m)
			m.until(t, "renewals", func() bool { return m.proxy.Seen(http.MethodPut) > before+6 })
			m.proxy.Set(nil)
			select {
			case <-m.b.leads:
				t.Error("the other took over")
			case err := <-m.a.result:
				t.Errorf("lost: %v", err)
			default:
			}
			m.a.stop()
			m.a.wantResult(nil)
			m.b.term()
			m.wantOrder(t)
		})
	}
}

func (m *match) edits(n int) {
	for i := range n {
		l := m.lease()
		l.Labels["touched"] = strings.Repeat("x", i+1)
		if _, err := m.leases.Update(m.t.Context(), l, metav1.UpdateOptions{}); err != nil {
			m.t.Logf("edit: %v", err) // It lost against a renewal.
		}
	}
}

func (m *match) lease() *coordinationv1.Lease {
	l, err := m.leases.Get(m.t.Context(), m.name, metav1.GetOptions{})
	if err != nil {
		m.t.Error(err)
		return &coordinationv1.Lease{}
	}
	return l
}

func (m *match) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for tick := time.NewTicker(10 * time.Millisecond); !ok(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		}
	}
}

func TestDeletedOnTheAPIServer(t *testing.T) {
	t.Parallel()
	m := newMatch(t)
	if err := m.leases.Delete(t.Context(), m.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	m.a.wantResult(leaderelect.ErrLost)
	m.b.term()
	m.wantOrder(t)
}

func TestStolenOnTheAPIServer(t *testing.T) {
	t.Parallel()
	m := newMatch(t)
	m.until(t, "theft", func() bool {
		m.steal(t.Context(), m.lease())
		h := m.lease().Spec.HolderIdentity
		return h != nil && *h == "thief"
	})
	m.a.wantResult(leaderelect.ErrLost)
	if h := *m.lease().Spec.HolderIdentity; h != "thief" {
		t.Errorf("the holder is %q: the thief was wiped", h)
	}
	m.b.term()
	m.wantOrder(t)
}

// TestHandOverOnTheAPIServer: a release is acted on at once, with no poll between.
func TestHandOverOnTheAPIServer(t *testing.T) {
	t.Parallel()
	m := newMatch(t)
	m.a.stop()
	m.a.wantResult(nil)
	m.b.term()
	l := m.lease()
	if l.Labels[v1alpha1.LabelCompeting] != "true" || l.Annotations[v1alpha1.AnnotationReleasedToken] == "" {
		t.Errorf("labels %v, annotations %v", l.Labels, l.Annotations)
	}
	m.wantOrder(t)
}

// TestIssuerIsReadFromTheCluster also runs without a permission to.
func TestIssuerIsReadFromTheCluster(t *testing.T) {
	t.Parallel()
	c := newContest(t, apiserver.Namespace(t), 0)
	system, err := kubernetes.NewForConfigOrDie(apiserver.Config(t)).CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o := leaderelect.Options{Config: apiserver.Config(t), Namespace: c.namespace, Name: c.name, Compete: &leaderelect.Compete{Fresh: true}}
	lead := func() error {
		e, err := leaderelect.New(o)
		if err != nil {
			t.Fatal(err)
		}
		return e.Run(t.Context(), func(_ context.Context, term *leaderelect.Term) error { return errors.New(term.Claim().Issuer) })
	}
	if err := lead(); err == nil || err.Error() != string(system.UID)+"/"+c.namespace+"/"+c.name {
		t.Errorf("issuer %v", err)
	}
	o.Config.Impersonate.UserName = "nobody-special"
	if err := lead(); err == nil || !strings.Contains(err.Error(), "Compete.Issuer") {
		t.Errorf("without a permission: %v", err)
	}
}
