// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"leasehold.dev/fencing"
	"leasehold.dev/internal/testenv/redistest"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	plainClient := client(t, server.Addr())
	replicas := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: cluster.Addrs(), ReadOnly: true})
	ring := goredis.NewRing(&goredis.RingOptions{Addrs: map[string]string{"one": server.Addr()}})
	hasty := goredis.NewClient(&goredis.Options{Addr: server.Addr(), ReadTimeout: time.Second})
	t.Cleanup(func() { _ = errors.Join(replicas.Close(), ring.Close(), hasty.Close()) })
	for _, tt := range []struct {
		name, resource string
		client         goredis.UniversalClient
		opts           Options
		want           string
	}{
		{"no name", "", plainClient, Options{}, "hash tag"},
		{"a name with a brace", "a}b", plainClient, Options{}, "hash tag"},
		{"negative options", "a", plainClient, Options{Replicas: -1}, "negative"},
		{"a client that reads from replicas", "a", replicas, Options{}, "replicas"},
		{"a ring", "a", ring, Options{}, "*redis.Ring"},
		{"a client that gives up before the replicas", "a", hasty, Options{Replicas: 1}, "cannot wait"},
	} {
		if _, err := New(tt.client, tt.resource, tt.opts); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", tt.name, err, tt.want)
		}
	}
}

// TestEviction: a server that may evict anything is refused, since it evicts
// marks too.
func TestEviction(t *testing.T) {
	t.Parallel()
	s, err := redistest.Start(t.Context(), "maxmemory 3mb", "maxmemory-policy allkeys-random")
	must(t, err)
	stops(t, s.Stop)
	c := client(t, s.Addr())
	g, err := New(c, "orders", Options{})
	must(t, err)
	wantRefusal := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "evict the mark") {
			t.Errorf("%s: error %v, want a refusal of the policy", what, err)
		}
	}
	wantRefusal("arm", g.Arm(t.Context(), issuer))

	must(t, c.ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err())
	must(t, g.Arm(t.Context(), issuer))
	must(t, g.Raise(t.Context(), claim(34, "a")))
	must(t, c.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-random").Err())
	wantRefusal("raise", g.Raise(t.Context(), claim(35, "b")))
	wantRefusal("adopt", g.Adopt(t.Context(), issuer, "c2/shop/orders"))
	for i := 0; c.Exists(t.Context(), g.markKey()).Val() == 1; i++ { // what the refusal is for
		if i > 100_000 {
			t.Fatal("the mark was not evicted, so there would be no need to refuse")
		}
		must(t, c.Set(t.Context(), "filler"+strings.Repeat("x", i%7)+time.Duration(i).String(), strings.Repeat("v", 1000), 0).Err())
	}
	wantClass(t, "write without a mark", set(g, claim(34, "a"), "a1"), fencing.ErrNotArmed)
}

// TestExpiry: a TTL that somebody gave the mark does not outlive the next raise.
func TestExpiry(t *testing.T) {
	t.Parallel()
	c := client(t, server.Addr())
	g := guard(t, c, Options{})
	for what, do := range map[string]func() error{
		"raise": func() error { return g.Raise(t.Context(), claim(34, "a")) },
		"arm":   func() error { return g.Arm(t.Context(), issuer) },
		"adopt": func() error { return g.Adopt(t.Context(), issuer, issuer) },
	} {
		must(t, c.Expire(t.Context(), g.markKey(), time.Hour).Err())
		must(t, do())
		if ttl := c.TTL(t.Context(), g.markKey()).Val(); ttl != -1 {
			t.Errorf("%s: the mark expires in %v", what, ttl)
		}
	}
}

func TestExec(t *testing.T) {
	t.Parallel()
	c := client(t, server.Addr())
	g := guard(t, c, Options{})
	a := claim(34, "a")
	must(t, g.Raise(t.Context(), a))
	value, list := g.Key("value"), g.Key("list")

	replies, err := g.Exec(t.Context(), a, Command{"SET", value, 41}, Command{"INCR", value}, Command{"RPUSH", list, "x", "y"})
	if err != nil || len(replies) != 3 || replies[1] != int64(42) || replies[2] != int64(2) {
		t.Errorf("replies %v, error %v; want OK, 42 and 2", replies, err)
	}
	_, err = g.Exec(t.Context(), a, Command{"INCR", list}, Command{"SET", value, "no"})
	if !goredis.HasErrorPrefix(err, "WRONGTYPE") || errors.Is(err, fencing.ErrUnknown) {
		t.Errorf("the first command fails: %v, want the server's own error", err)
	}
	wantValue(t, c, g, "42")
	_, err = g.Exec(t.Context(), a, Command{"SET", value, "done"}, Command{"INCR", list})
	wantClass(t, "the second command fails", err, fencing.ErrUnknown)
	wantValue(t, c, g, "done")
	if replies, err := g.Exec(t.Context(), a); err != nil || len(replies) != 0 {
		t.Errorf("no commands: %v, %v", replies, err)
	}
	for what, command := range map[string]Command{
		"no key":           {"SET", string(value), "no"},
		"foreign key":      {"SET", Key("other"), "no"},
		"similar key":      {"SET", Key("{" + g.resource + "}leasehold"), "no"},
		"the mark as text": {"SMOVE", g.Key("set"), g.markKey(), "x"},
		"nothing":          {},
	} {
		if _, err := g.Exec(t.Context(), a, Command{"SET", value, "no"}, command); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	wantValue(t, c, g, "done")
}

func TestRun(t *testing.T) {
	t.Parallel()
	c := client(t, server.Addr())
	g := guard(t, c, Options{})
	a := claim(34, "a")
	must(t, g.Raise(t.Context(), a))
	keys := []Key{g.Key("value")}

	own := NewScript(`if #KEYS ~= 1 or #ARGV ~= 2 then return redis.error_reply('ERR wrong numbers') end
return {redis.call('SET', KEYS[1], ARGV[1]), ARGV[2]}`)
	reply, err := g.Run(t.Context(), a, own, keys, "v1", g.Key("value"))
	if words, _ := reply.([]any); err != nil || len(words) != 2 || words[1] != string(keys[0]) {
		t.Errorf("reply %v, error %v", reply, err)
	}
	must(t, c.ScriptFlush(t.Context()).Err()) // as after a fail-over
	_, err = g.Run(t.Context(), a, own, keys, "v2", "")
	must(t, err)
	wantValue(t, c, g, "v2")
	if reply, err := g.Run(t.Context(), a, NewScript(`return false`), keys); reply != nil || err != nil {
		t.Errorf("a script that returns nothing: %v, %v", reply, err)
	}
	_, err = g.Run(t.Context(), a, NewScript(`redis.call('SET', KEYS[1], 'half'); error('no')`), keys)
	wantClass(t, "a script that fails in the middle", err, fencing.ErrUnknown)
	wantValue(t, c, g, "half")
	_, err = g.Run(t.Context(), a, NewScript(`not Lua`), keys)
	if err == nil || errors.Is(err, fencing.ErrUnknown) {
		t.Errorf("a script that cannot be compiled: %v, want the server's own error", err)
	}
	_, err = g.Run(t.Context(), claim(33, "z"), own, keys, "stale", "")
	wantClass(t, "an older token", err, fencing.ErrFenced)
	_, err = g.Run(t.Context(), a, own, []Key{"other"}, "v3", "")
	if err == nil {
		t.Error("a key of another resource was accepted")
	}
}

func TestDamagedMark(t *testing.T) {
	t.Parallel()
	c := client(t, server.Addr())
	g := guard(t, c, Options{})
	a := claim(34, "a")
	must(t, g.Raise(t.Context(), a))
	must(t, c.HSet(t.Context(), g.markKey(), "token", "034").Err())
	for what, err := range map[string]error{
		"write": set(g, a, "no"),
		"read":  func() error { _, err := g.Read(t.Context()); return err }(),
	} {
		if err == nil || !strings.Contains(err.Error(), "034") {
			t.Errorf("%s: error %v, want the mark refused as damaged", what, err)
		}
	}
	must(t, c.HDel(t.Context(), g.markKey(), "holder").Err())
	wantClass(t, "write under half a mark", set(g, a, "no"), fencing.ErrNotArmed)
	wantClass(t, "raise of half a mark", g.Raise(t.Context(), a), fencing.ErrNotArmed)
}

// replyError is an error reply, as the client makes them.
type replyError string

func (e replyError) Error() string { return string(e) }
func (replyError) RedisError()     {}

func TestClassify(t *testing.T) {
	t.Parallel()
	mine := claim(34, "a")
	write := failure{claim: mine, decide: fencing.DecideWrite, writing: true}
	own, raise := write, failure{claim: mine, decide: fencing.DecideRaise}
	own.own = true
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	dial := &net.OpError{Op: "dial", Err: io.EOF}
	other := errors.New("")
	for _, tt := range []struct {
		name string
		ctx  context.Context
		err  error
		f    failure
		want error // other: none of the classes
	}{
		{"fenced", t.Context(), replyError("FENCED token=35 issuer=" + issuer + " holder=b"), write, fencing.ErrFenced},
		{"fenced by nobody", t.Context(), replyError("FENCED token=34 issuer=" + issuer + " holder="), write, fencing.ErrFenced},
		{"not raised", t.Context(), replyError("NOTRAISED token=0 issuer=" + issuer + " holder="), write, fencing.ErrNotRaised},
		{"foreign", t.Context(), replyError("FOREIGN token=35 issuer=x holder=b"), write, fencing.ErrForeign},
		{"not armed", t.Context(), replyError("NOTARMED there is no mark"), write, fencing.ErrNotArmed},
		{"refused by an unreadable mark", t.Context(), replyError("FENCED by fate"), write, other},
		{"refused by a damaged mark", t.Context(), replyError("FENCED token=035 issuer=i holder=b"), write, other},
		{"refused for no reason", t.Context(), replyError("FENCED token=34 issuer=" + issuer + " holder=a"), write, other},
		{"partly done", t.Context(), replyError("PARTLY 1 commands were done"), write, fencing.ErrUnknown},
		{"another server", t.Context(), replyError("MOVED 1 h:1"), write, fencing.ErrRetry},
		{"a replica", t.Context(), replyError("READONLY You can't write"), own, fencing.ErrRetry},
		{"too few replicas", t.Context(), replyError("NOREPLICAS Not enough"), own, fencing.ErrRetry},
		{"full", t.Context(), replyError("OOM command not allowed"), own, other},
		{"no such type", t.Context(), replyError("WRONGTYPE Operation"), write, other},
		{"no such type, in a script of the caller", t.Context(), replyError("WRONGTYPE Operation"), own, fencing.ErrUnknown},
		{"write, broken connection", t.Context(), io.EOF, write, fencing.ErrUnknown},
		{"write, no connection", t.Context(), dial, write, fencing.ErrRetry},
		{"write, no free connection", t.Context(), goredis.ErrPoolTimeout, write, fencing.ErrRetry},
		{"write, given up", canceled, context.Canceled, write, fencing.ErrUnknown},
		{"write, closed client", t.Context(), goredis.ErrClosed, write, other},
		{"write, too few replicas have it", t.Context(), &replicasError{have: 0, want: 1}, write, fencing.ErrUnknown},
		{"raise, too few replicas have it", t.Context(), &replicasError{have: 0, want: 1}, raise, fencing.ErrRetry},
		{"raise, broken connection", t.Context(), io.EOF, raise, fencing.ErrRetry},
		{"raise, given up", canceled, context.Canceled, raise, other},
	} {
		got := classify(tt.ctx, tt.err, tt.f)
		for _, class := range []error{
			fencing.ErrFenced, fencing.ErrNotRaised, fencing.ErrForeign, fencing.ErrNotArmed, fencing.ErrRetry, fencing.ErrUnknown,
		} {
			if errors.Is(got, class) != (class == tt.want) {
				t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
			}
		}
		if got == nil {
			t.Errorf("%s: no error", tt.name)
		}
	}
	if err := classify(t.Context(), nil, write); err != nil {
		t.Errorf("no error became %v", err)
	}
}
