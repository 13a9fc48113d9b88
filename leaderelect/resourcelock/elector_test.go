// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcelock_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	clientgo "k8s.io/client-go/tools/leaderelection/resourcelock"

	"leasehold.dev/fencing"
	"leasehold.dev/internal/testenv/apiserver"
	"leasehold.dev/internal/testenv/faultproxy"
	"leasehold.dev/leaderelect/resourcelock"
)

// These run client-go's own LeaderElector, as fast as a lock lets it.
const (
	duration      = 3 * time.Second
	renewDeadline = 2500 * time.Millisecond
	patience      = 40 * time.Second
)

const leaseName = "work"

func ours(t *testing.T, config *rest.Config, namespace, id string) *resourcelock.Lock {
	t.Helper()
	l, err := resourcelock.New(resourcelock.Options{Config: config, Namespace: namespace, Name: leaseName, Identity: id,
		LeaseDuration: duration, Issuer: "cluster/ns/work", Fresh: true})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func plain(config *rest.Config, namespace, id string) *clientgo.LeaseLock {
	return &clientgo.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: leaseName},
		Client: kubernetes.NewForConfigOrDie(config).CoordinationV1(), LockConfig: clientgo.ResourceLockConfig{Identity: id}}
}

// candidate is one run of a LeaderElector.
type candidate struct {
	t    *testing.T
	stop context.CancelFunc
	// leads and over are closed when the elector says so; over also follows the
	// release.
	leads, over chan struct{}
}

func run(t *testing.T, lock clientgo.Interface) *candidate {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	c := &candidate{t: t, stop: stop, leads: make(chan struct{}), over: make(chan struct{})}
	e, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: duration, RenewDeadline: renewDeadline, RetryPeriod: 300 * time.Millisecond, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(c.leads) }, OnStoppedLeading: func() {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.over)
		e.Run(ctx)
	}()
	return c
}

func (c *candidate) wait(event <-chan struct{}, what string) {
	c.t.Helper()
	select {
	case <-event:
	case <-time.After(patience):
		c.t.Fatal("not in time: ", what)
	}
}

func claim(t *testing.T, l *resourcelock.Lock) fencing.Claim {
	t.Helper()
	c, err := l.Claim()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestLeaderElectorHandsOver: a clean stop passes the Lease on within a retry
// period, and a token on that is greater.
func TestLeaderElectorHandsOver(t *testing.T) {
	t.Parallel()
	ns := apiserver.Namespace(t)
	locks := []*resourcelock.Lock{ours(t, apiserver.Config(t), ns, "a"), ours(t, apiserver.Config(t), ns, "b")}
	first := run(t, locks[0])
	first.wait(first.leads, "a leads")
	second := run(t, locks[1])
	last := claim(t, locks[0])
	for i := range 4 {
		first.stop()
		first.wait(first.over, "the release")
		released := time.Now()
		second.wait(second.leads, "the other leads")
		if took := time.Since(released); took >= duration {
			t.Errorf("the hand-over took %s, as long as a lapse", took)
		}
		if _, err := locks[i%2].Claim(); err == nil {
			t.Error("the one that stopped has a claim")
		}
		next := claim(t, locks[(i+1)%2])
		if next.Token <= last.Token {
			t.Errorf("token %d follows %d", next.Token, last.Token)
		}
		last = next
		first, second = second, run(t, locks[i%2])
	}
}

// cutOff lets the leader a lose contact and b take over, and gives a its contact
// back while it releases what it remembers. It returns whom the Lease names then.
func cutOff(t *testing.T, namespace string, lock func(config *rest.Config, id string) clientgo.Interface) string {
	t.Helper()
	proxy := faultproxy.New(t, apiserver.Config(t))
	first := lock(proxy.Config(), "a")
	a := run(t, first)
	a.wait(a.leads, "a leads")
	b := run(t, lock(apiserver.Config(t), "b"))
	proxy.Freeze()
	b.wait(b.leads, "b leads")
	if l, ok := first.(*resourcelock.Lock); ok {
		if c, err := l.Claim(); err == nil {
			t.Errorf("a claims %v while b leads", c)
		}
	}
	proxy.Thaw()
	a.wait(a.over, "a gives up")
	record, _, err := plain(apiserver.Config(t), namespace, "onlooker").Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return record.HolderIdentity
}

// TestLateStopLeavesTheSuccessor: see cutOff.
func TestLateStopLeavesTheSuccessor(t *testing.T) {
	t.Parallel()
	ns := apiserver.Namespace(t)
	if holder := cutOff(t, ns, func(config *rest.Config, id string) clientgo.Interface { return ours(t, config, ns, id) }); holder != "b" {
		t.Errorf("the Lease names %q", holder)
	}
}

// TestLateStopWithLeaseLock is the negative control.
func TestLateStopWithLeaseLock(t *testing.T) {
	t.Parallel()
	ns := apiserver.Namespace(t)
	if holder := cutOff(t, ns, func(config *rest.Config, id string) clientgo.Interface { return plain(config, ns, id) }); holder != "" {
		t.Errorf("the Lease names %q: the control does not find what it is for", holder)
	}
}
