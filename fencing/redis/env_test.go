// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"leasehold.dev/fencing"
	"leasehold.dev/internal/testenv/redistest"
)

const (
	issuer = "c1/shop/orders"
	// patience bounds every wait for something that should happen at once.
	patience = time.Minute
)

// Servers of the tests that do not break any.
var (
	server   *redistest.Server // alone
	primary  *redistest.Server // with a replica and a sentinel
	sentinel *redistest.Server
	cluster  *redistest.Cluster // of one, so that every client's connection can be led through a proxy
)

func TestMain(m *testing.M) { os.Exit(withServers(m.Run)) }

// quiet keeps the client from telling of connections that the tests break.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func withServers(run func() int) int {
	goredis.SetLogger(quiet{})
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	var stops []func() error
	defer func() {
		for _, stop := range stops {
			if err := stop(); err != nil {
				log.Print(err)
			}
		}
	}()
	err := errors.Join(
		started(&server, &stops)(redistest.Start(ctx)),
		started(&primary, &stops)(redistest.Start(ctx)),
	)
	if err == nil {
		var replica *redistest.Server
		err = errors.Join(
			started(&replica, &stops)(primary.StartReplica(ctx)),
			started(&sentinel, &stops)(primary.StartSentinel(ctx)),
			started(&cluster, &stops)(redistest.StartCluster(ctx, 1)),
		)
	}
	if err != nil {
		log.Print(err)
		return 1
	}
	return run()
}

func started[S interface{ Stop() error }](to *S, stops *[]func() error) func(S, error) error {
	return func(s S, err error) error {
		if err == nil {
			*to = s
			*stops = append(*stops, s.Stop)
		}
		return err
	}
}

// options are those of the tests: a frozen request is held longer than a client
// waits by default.
func options(addr string) *goredis.Options {
	return &goredis.Options{Addr: addr, ReadTimeout: patience, WriteTimeout: patience, DialTimeout: patience, PoolTimeout: patience}
}

// client opens one that the test closes.
func client(t *testing.T, addr string) *goredis.Client {
	t.Helper()
	c := goredis.NewClient(options(addr))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// guard returns one of a resource that is named after the test and armed.
func guard(t *testing.T, c goredis.UniversalClient, opts Options) *Guard {
	t.Helper()
	g, err := New(c, strings.ReplaceAll(t.Name(), "/", ":"), opts)
	must(t, err)
	must(t, g.Arm(t.Context(), issuer))
	return g
}

func claim(token int64, holder string) fencing.Claim {
	return fencing.Claim{Issuer: issuer, Token: token, Holder: holder}
}

// set is a guarded write.
func set(g *Guard, c fencing.Claim, value string) error {
	_, err := g.Exec(context.Background(), c, Command{"SET", g.Key("value"), value})
	return err
}

func wantValue(t *testing.T, c goredis.Cmdable, g *Guard, want string) {
	t.Helper()
	got, err := c.Get(t.Context(), string(g.Key("value"))).Result()
	if got != want || (err != nil && !errors.Is(err, goredis.Nil)) {
		t.Errorf("the value is %q (error %v), want %q", got, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantClass expects err to match class; nil means none.
func wantClass(t *testing.T, what string, err, class error) {
	t.Helper()
	if !errors.Is(err, class) {
		t.Errorf("%s: error %v, want %v", what, err, class)
	}
}
