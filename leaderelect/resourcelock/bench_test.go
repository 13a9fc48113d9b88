// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcelock

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"leasehold.dev/fencing"
	"leasehold.dev/internal/holder/clock/clocktest"
	"leasehold.dev/internal/testenv/apiserver"
	"leasehold.dev/leaderelect/lease"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Main(m)) }

const (
	duration = 15 * time.Second
	trust    = 12 * time.Second
	issuer   = "cluster/ns/work"
)

// bench is one Lease on the real API server, and locks whose clock the test moves.
// It does, step by step, what client-go's LeaderElector does with a lock.
type bench struct {
	t         *testing.T
	clock     *clocktest.Clock
	namespace string
	client    kubernetes.Interface
	leases    coordinationclient.LeaseInterface
}

const leaseName = "work"

func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	ns := apiserver.Namespace(t)
	client := kubernetes.NewForConfigOrDie(apiserver.Config(t))
	return &bench{t: t, clock: clocktest.New(), namespace: ns, client: client, leases: client.CoordinationV1().Leases(ns)}
}

func (b *bench) options(id string) Options {
	return Options{Config: apiserver.Config(b.t), Namespace: b.namespace, Name: leaseName, Identity: id, Issuer: issuer}
}

func (b *bench) lock(id string, change ...func(*Options)) *Lock {
	b.t.Helper()
	o := b.options(id)
	for _, f := range change {
		f(&o)
	}
	l, err := New(o)
	if err != nil {
		b.t.Fatal(err)
	}
	l.clock = b.clock
	return l
}

func fresh(o *Options) { o.Fresh = true }

// through makes a lock's requests pass through f.
func through(f func(*http.Request, http.RoundTripper) (*http.Response, error)) func(*Options) {
	return func(o *Options) {
		o.Config = rest.CopyConfig(o.Config)
		o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return tripper(func(r *http.Request) (*http.Response, error) { return f(r, next) })
		})
	}
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// errCut is a connection that breaks.
var errCut = errors.New("cut by the test")

// loseReplies loses the replies to so many of the next writes, after the commit.
type loseReplies struct {
	mu   sync.Mutex
	left int
}

func (l *loseReplies) next(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = n
}

func (l *loseReplies) pass(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	response, err := next.RoundTrip(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || r.Method != http.MethodPut || l.left == 0 {
		return response, err
	}
	l.left--
	return nil, errors.Join(errCut, response.Body.Close())
}

// replay answers reads with an earlier answer of the API server while it is told
// to, as one does whose store was restored.
type replay struct {
	mu    sync.Mutex
	on    bool
	saved []byte
}

func (p *replay) set(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on = on
}

func (p *replay) pass(r *http.Request, next http.RoundTripper) (*http.Response, error) {
	response, err := next.RoundTrip(r)
	if err != nil || r.Method != http.MethodGet {
		return response, err
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.on {
		body = p.saved
	} else {
		p.saved = body
	}
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	response.Header.Del("Content-Length")
	return response, nil
}

// errWaits: an elector would wait, since the record names another.
var errWaits = errors.New("the record names a holder")

func wish(id string) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: id, LeaseDurationSeconds: int(duration / time.Second), RenewTime: metav1.Now()}
}

// try takes or renews, as an elector does that looks first.
func (b *bench) try(l resourcelock.Interface) error {
	record, _, err := l.Get(b.t.Context())
	if err != nil {
		return err
	}
	if record.HolderIdentity != "" && record.HolderIdentity != l.Identity() {
		return errWaits
	}
	return l.Update(b.t.Context(), wish(l.Identity()))
}

// renew is an elector's fast path: it does not look first.
func (b *bench) renew(l *Lock) error { return l.Update(b.t.Context(), wish(l.Identity())) }

// release is what an elector does at the end with ReleaseOnCancel, while it
// remembers that it leads.
func (b *bench) release(l resourcelock.Interface) error {
	if _, _, err := l.Get(b.t.Context()); err != nil {
		return err
	}
	err := l.Update(b.t.Context(), resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 1})
	l.RecordEvent(stoppedLeading)
	return err
}

// must fails the test at once.
func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// takes makes the lock take the Lease and returns the claim.
func (b *bench) takes(l *Lock) fencing.Claim {
	b.t.Helper()
	b.must(b.try(l))
	claim, err := l.Claim()
	b.must(err)
	return claim
}

// waits wants a lock not to get the Lease, and not to claim anything.
func (b *bench) waits(l *Lock) {
	b.t.Helper()
	if err := b.try(l); !errors.Is(err, errWaits) {
		b.t.Errorf("%s does not wait: %v", l.Identity(), err)
	}
	b.claimsNothing(l)
}

// takesAfter wants a lock to take the Lease d from now, and not before. It must
// not have been seen by the lock yet.
func (b *bench) takesAfter(l *Lock, d time.Duration) fencing.Claim {
	b.t.Helper()
	b.waits(l)
	b.clock.Advance(d - time.Millisecond)
	b.waits(l)
	b.clock.Advance(time.Millisecond)
	return b.takes(l)
}

func (b *bench) claimsNothing(l *Lock) {
	b.t.Helper()
	if claim, err := l.Claim(); !errors.Is(err, ErrNotHeld) {
		b.t.Errorf("%s claims %v, %v", l.Identity(), claim, err)
	}
}

func (b *bench) rises(before, after fencing.Claim) {
	b.t.Helper()
	if after.Token <= before.Token {
		b.t.Errorf("token %d follows %d", after.Token, before.Token)
	}
}

func (b *bench) lease() *coordinationv1.Lease {
	b.t.Helper()
	l, err := b.leases.Get(b.t.Context(), leaseName, metav1.GetOptions{})
	b.must(err)
	return l
}

func (b *bench) record() lease.Record {
	b.t.Helper()
	r, err := lease.Parse(b.lease())
	b.must(err)
	return r
}

// edit changes the Lease by hand.
func (b *bench) edit(change func(*coordinationv1.Lease)) {
	b.t.Helper()
	l := b.lease()
	change(l)
	_, err := b.leases.Update(b.t.Context(), l, metav1.UpdateOptions{})
	b.must(err)
}

func (b *bench) delete() {
	b.t.Helper()
	b.must(b.leases.Delete(b.t.Context(), leaseName, metav1.DeleteOptions{}))
}

// plain is client-go's own lock on the same Lease, for what goes wrong with it.
func (b *bench) plain(id string) *resourcelock.LeaseLock {
	return &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: leaseName},
		Client: b.client.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: id}}
}

func wantText(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("the error is %q, want %q in it", err, p)
		}
	}
}
