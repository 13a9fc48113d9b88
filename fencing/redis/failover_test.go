// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"leasehold.dev/fencing"
	"leasehold.dev/internal/testenv/redistest"
)

// pair is a primary and a replica of one test.
type pair struct {
	primary, replica *redistest.Server
	old, promoted    *goredis.Client
	freeze, thaw     func() error // the replica
}

func newPair(t *testing.T) pair {
	t.Helper()
	var p pair
	var err error
	p.primary, err = redistest.Start(t.Context())
	must(t, err)
	stops(t, p.primary.Stop)
	p.replica, err = p.primary.StartReplica(t.Context())
	must(t, err)
	stops(t, p.replica.Stop)
	p.freeze, p.thaw, err = p.replica.Freezer(t.Context())
	must(t, err)
	t.Cleanup(func() { _ = p.thaw() })
	p.old, p.promoted = client(t, p.primary.Addr()), client(t, p.replica.Addr())
	return p
}

func stops(t *testing.T, stop func() error) {
	t.Helper()
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// promote ends the primary and makes the replica one.
func (p pair) promote(t *testing.T) {
	t.Helper()
	must(t, p.primary.Stop())
	must(t, p.thaw())
	must(t, p.promoted.ReplicaOf(t.Context(), "NO", "ONE").Err())
}

// TestReplicaMissesRaise: b's raise is acknowledged by a primary from which the
// replica is cut off, and which is then replaced by it. There the mark is still
// a's, and a must not write.
func TestReplicaMissesRaise(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	a, b := claim(34, "a"), claim(35, "b")
	g := guard(t, p.old, Options{Replicas: 1, ReplicaTimeout: patience / 2})
	must(t, g.Raise(t.Context(), a))
	must(t, set(g, a, "a1"))
	must(t, p.promoted.ReplicaOf(t.Context(), "NO", "ONE").Err())
	g.opts.Replicas = 0
	must(t, g.Raise(t.Context(), b)) // acknowledged, and lost
	must(t, set(g, b, "b0"))

	after, err := New(p.promoted, g.resource, Options{})
	must(t, err)
	m, err := after.Read(t.Context())
	if want := (fencing.Mark{Issuer: issuer, Token: 34}); m != want || err != nil {
		t.Errorf("the mark is %v (error %v), want %v", m, err, want)
	}
	wantClass(t, "write by the stale holder", set(after, a, "stale"), fencing.ErrFenced)
	wantClass(t, "raise by the stale holder", after.Raise(t.Context(), a), fencing.ErrFenced)
	wantValue(t, p.promoted, after, "a1")

	trusting := edited(checkLua+`return redis.call('SET', KEYS[1], ARGV[1])`,
		"if server ~= string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') then", "if false then")
	if _, err := after.Run(t.Context(), a, trusting, []Key{after.Key("value")}, "stale"); err != nil {
		t.Errorf("a check without the replication id refuses (%v), so the id is not what saves us", err)
	}

	wantClass(t, "write by the new holder", set(after, b, "b1"), fencing.ErrNotRaised)
	must(t, after.Raise(t.Context(), b))
	must(t, set(after, b, "b1"))
	wantClass(t, "write by the stale holder", set(after, a, "stale"), fencing.ErrFenced)
	wantValue(t, p.promoted, after, "b1")
}

// TestReplicaHasRaise: the raise is on the promoted replica, but whether one above
// it was lost nobody can tell. The holder needs a new token.
func TestReplicaHasRaise(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	b := claim(35, "b")
	g := guard(t, p.old, Options{Replicas: 1, ReplicaTimeout: patience / 2})
	must(t, g.Raise(t.Context(), b))
	p.promote(t)

	after, err := New(p.promoted, g.resource, Options{})
	must(t, err)
	err = set(after, b, "b1")
	wantClass(t, "write with the old token", err, fencing.ErrFenced)
	if fenced, ok := errors.AsType[*fencing.FencedError](err); ok && fenced.Collision() {
		t.Errorf("the refusal speaks of a collision: %v", err)
	}
	wantClass(t, "raise of the old token", after.Raise(t.Context(), b), fencing.ErrFenced)
	next := claim(36, "b")
	must(t, after.Raise(t.Context(), next))
	must(t, set(after, next, "b2"))
	wantValue(t, p.promoted, after, "b2")
}

// TestWaitOnTheSameConnection: with its replica frozen a raise does not count,
// and a write is not known to last. Asked on another connection, WAIT says that
// all is well.
func TestWaitOnTheSameConnection(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	a, b := claim(34, "a"), claim(35, "b")
	g := guard(t, p.old, Options{Replicas: 1, ReplicaTimeout: patience / 2})
	other := client(t, p.primary.Addr()) // answers for what it has sent so far
	must(t, other.Ping(t.Context()).Err())
	must(t, g.Raise(t.Context(), a))
	must(t, p.freeze())

	g.opts.ReplicaTimeout = 10 * time.Millisecond
	wantClass(t, "raise without the replica", g.Raise(t.Context(), b), fencing.ErrRetry)
	wantClass(t, "the same again", g.Raise(t.Context(), b), fencing.ErrRetry)
	wantClass(t, "write without the replica", set(g, b, "b1"), fencing.ErrUnknown)
	wantClass(t, "write by the older holder", set(g, a, "stale"), fencing.ErrFenced)
	if n, err := other.Wait(t.Context(), 1, time.Second).Result(); n != 1 || err != nil {
		t.Errorf("WAIT on another connection answers %d, %v; want 1, although the replica is frozen", n, err)
	}

	must(t, p.thaw())
	g.opts.ReplicaTimeout = patience / 2
	must(t, g.Raise(t.Context(), b))
	must(t, set(g, b, "b2"))
	p.promote(t)
	after, err := New(p.promoted, g.resource, Options{})
	must(t, err)
	wantClass(t, "write by the older holder", set(after, a, "stale"), fencing.ErrFenced)
	wantValue(t, p.promoted, after, "b2")
}

// TestFirstReplica: the replication id changes too when a server gets its first
// replica. Nothing was lost, which the server cannot tell.
func TestFirstReplica(t *testing.T) {
	t.Parallel()
	s, err := redistest.Start(t.Context())
	must(t, err)
	stops(t, s.Stop)
	g := guard(t, client(t, s.Addr()), Options{})
	must(t, g.Raise(t.Context(), claim(34, "a")))
	replica, err := s.StartReplica(t.Context())
	must(t, err)
	stops(t, replica.Stop)
	wantClass(t, "write", set(g, claim(34, "a"), "a1"), fencing.ErrFenced)
	must(t, g.Raise(t.Context(), claim(35, "a")))
	must(t, set(g, claim(35, "a"), "a2"))
}

// TestSentinelFailover: the sentinel promotes the replica of a primary that died.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	s, err := p.primary.StartSentinel(t.Context())
	must(t, err)
	stops(t, s.Stop)
	a := claim(34, "a")
	c := failoverClient(t, s, nil)
	g := guard(t, c, Options{Replicas: 1, ReplicaTimeout: patience / 2})
	must(t, g.Raise(t.Context(), a))
	must(t, set(g, a, "a1"))
	must(t, waitFor(t, func(ctx context.Context) error { // only then does it know whom to promote
		replicas, err := goredis.NewSentinelClient(&goredis.Options{Addr: s.Addr()}).Replicas(ctx, redistest.MainName).Result()
		if err == nil && len(replicas) == 0 {
			err = errors.New("the sentinel knows no replica")
		}
		return err
	}))
	must(t, p.primary.Stop())

	g.opts.Replicas = 0
	var last error
	must(t, waitFor(t, func(context.Context) error {
		last = set(g, a, "stale")
		if errors.Is(last, fencing.ErrRetry) || errors.Is(last, fencing.ErrUnknown) {
			return last
		}
		return nil
	}))
	wantClass(t, "write after the fail-over", last, fencing.ErrFenced)
	must(t, g.Raise(t.Context(), claim(35, "b")))
	wantClass(t, "write by the older holder", set(g, a, "stale"), fencing.ErrFenced)
	must(t, set(g, claim(35, "b"), "b1"))
	wantValue(t, c, g, "b1")
}

// TestClusterFailover: three primaries, of which one hands its slots to its
// replica.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	cl, err := redistest.StartCluster(t.Context(), 3)
	must(t, err)
	stops(t, cl.Stop)
	c := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: cl.Addrs(), ReadTimeout: patience})
	t.Cleanup(func() { _ = c.Close() })
	g := guard(t, c, Options{})
	a, b := claim(34, "a"), claim(35, "b")
	must(t, g.Raise(t.Context(), a))
	must(t, set(g, a, "a1"))

	slot, err := c.ClusterKeySlot(t.Context(), g.markKey()).Result()
	must(t, err)
	replica, err := cl.StartReplica(t.Context(), int(slot)*3/16384)
	must(t, err)
	wantClass(t, "write after a first replica came", set(g, a, "stale"), fencing.ErrFenced)
	g.opts = Options{Replicas: 1, ReplicaTimeout: patience / 2}
	must(t, g.Raise(t.Context(), b))
	must(t, set(g, b, "b1"))
	direct := client(t, replica.Addr())
	must(t, direct.ClusterFailover(t.Context()).Err())

	var last error
	must(t, waitFor(t, func(ctx context.Context) error {
		role, err := direct.Do(ctx, "ROLE").Slice()
		if err == nil && role[0] != "master" {
			err = errors.New("not promoted yet")
		}
		if err != nil {
			return err
		}
		last = set(g, b, "stale")
		if errors.Is(last, fencing.ErrRetry) || errors.Is(last, fencing.ErrUnknown) {
			return last
		}
		return nil
	}))
	wantClass(t, "write after the fail-over", last, fencing.ErrFenced)
	next := claim(36, "c")
	must(t, g.Raise(t.Context(), next))
	must(t, set(g, next, "c1"))
	wantClass(t, "write by the older holder", set(g, b, "stale"), fencing.ErrFenced)
	wantValue(t, c, g, "c1")
}

// waitFor calls do until it returns nil.
func waitFor(t *testing.T, do func(context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := do(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}
