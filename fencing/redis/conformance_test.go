// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"fmt"
	"hash/fnv"
	"net"
	"strconv"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"leasehold.dev/fencing"
	"leasehold.dev/fencing/fencetest"
	"leasehold.dev/internal/testenv/redistest"
)

// TestConformance runs the suite with each kind of client, whose own retries are
// left on.
func TestConformance(t *testing.T) {
	without := map[string]string{
		fencetest.CaseTransaction: "a write is one script: there is no transaction to be left open",
		fencetest.CaseRowLock:     "one script at a time: there is nothing to wait behind",
	}
	t.Run("single", func(t *testing.T) {
		fencetest.Run(t, fencetest.Suite{
			Adapter: "redis", Store: server.Addr(), Without: without, Naive: naives(),
			Open: func(t *testing.T, r fencetest.Resource) fencetest.Target { return single(t, r) },
		})
	})
	t.Run("sentinel", func(t *testing.T) {
		fencetest.Run(t, fencetest.Suite{
			Adapter: "redis/sentinel", Store: primary.Addr(), Without: without, Naive: naives()[:1],
			Open: func(t *testing.T, r fencetest.Resource) fencetest.Target {
				return newTarget(t, r, failoverClient(t, sentinel, map[string]string{primary.Addr(): r.Addr}),
					client(t, primary.Addr()), Options{Replicas: 1, ReplicaTimeout: patience / 2})
			},
		})
	})
	t.Run("cluster", func(t *testing.T) {
		fencetest.Run(t, fencetest.Suite{
			Adapter: "redis/cluster", Store: cluster.Addrs()[0], Without: without, Naive: naives()[:1],
			Open: func(t *testing.T, r fencetest.Resource) fencetest.Target {
				return newTarget(t, r, clusterClient(t, r.Addr), client(t, cluster.Addrs()[0]), Options{})
			},
		})
	})
}

func single(t *testing.T, r fencetest.Resource) target {
	t.Helper()
	return newTarget(t, r, client(t, r.Addr), client(t, server.Addr()), Options{})
}

// failoverClient is one that asks the sentinel, and goes to another address for
// some of those that it is given.
func failoverClient(t *testing.T, s *redistest.Server, through map[string]string) *goredis.Client {
	t.Helper()
	o := options("")
	c := goredis.NewFailoverClient(&goredis.FailoverOptions{
		MasterName: redistest.MainName, SentinelAddrs: []string{s.Addr()},
		ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, DialTimeout: o.DialTimeout, PoolTimeout: o.PoolTimeout,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if other, ok := through[addr]; ok {
				addr = other
			}
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		},
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// clusterClient is one for which addr has all slots.
func clusterClient(t *testing.T, addr string) *goredis.ClusterClient {
	t.Helper()
	o := options("")
	c := goredis.NewClusterClient(&goredis.ClusterOptions{
		ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, DialTimeout: o.DialTimeout, PoolTimeout: o.PoolTimeout,
		ClusterSlots: func(context.Context) ([]goredis.ClusterSlot, error) {
			return []goredis.ClusterSlot{{Start: 0, End: 16383, Nodes: []goredis.ClusterNode{{Addr: addr}}}}, nil
		},
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// target is a journal in a list.
type target struct {
	*Guard
	direct *goredis.Client // past the proxy
	pause  func()
}

func newTarget(t *testing.T, r fencetest.Resource, c goredis.UniversalClient, direct *goredis.Client, opts Options) target {
	t.Helper()
	g, err := New(c, r.Name, opts)
	must(t, err)
	return target{g, direct, r.Pause}
}

var appendScript = NewScript(`return redis.call('RPUSH', KEYS[1], ARGV[1])`)

func (tg target) journal() Key { return tg.Key("journal") }

// Append takes turns with the two shapes of a write.
func (tg target) Append(ctx context.Context, c fencing.Claim, nonce string) error {
	h := fnv.New32()
	_, _ = h.Write([]byte(nonce)) // never fails
	if h.Sum32()%2 == 0 {
		_, err := tg.Exec(ctx, c, Command{"RPUSH", tg.journal(), entry(c, nonce)})
		return err
	}
	_, err := tg.Run(ctx, c, appendScript, []Key{tg.journal()}, entry(c, nonce))
	return err
}

func entry(c fencing.Claim, nonce string) string {
	return fmt.Sprintf("%d %s %s", c.Token, c.Holder, nonce)
}

func (tg target) Journal(ctx context.Context) ([]fencetest.Entry, error) {
	lines, err := tg.direct.LRange(ctx, string(tg.journal()), 0, -1).Result()
	if err != nil {
		return nil, err
	}
	var journal []fencetest.Entry
	for _, line := range lines {
		parts := strings.Fields(line)
		token, err := strconv.ParseInt(parts[0], 10, 64)
		if err != nil {
			return nil, err
		}
		journal = append(journal, fencetest.Entry{Token: token, Holder: parts[1], Nonce: parts[2]})
	}
	return journal, nil
}

// DropMark implements fencetest.MarkDropper.
func (tg target) DropMark(ctx context.Context) error { return tg.direct.Del(ctx, tg.markKey()).Err() }

// Snapshot implements fencetest.Restorer. What a promoted replica does is in
// failover_test.go.
func (tg target) Snapshot(ctx context.Context) (func(context.Context) error, error) {
	dumps := map[string]string{}
	for _, key := range []string{tg.markKey(), string(tg.journal())} {
		dump, err := tg.direct.Dump(ctx, key).Result()
		if err != nil {
			return nil, err
		}
		dumps[key] = dump
	}
	return func(ctx context.Context) error {
		for key, dump := range dumps {
			if err := tg.direct.RestoreReplace(ctx, key, 0, dump).Err(); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// Remove implements fencetest.Remover.
func (tg target) Remove(ctx context.Context, c fencing.Claim) error {
	_, err := tg.Exec(ctx, c, Command{"DEL", tg.journal()})
	return err
}
