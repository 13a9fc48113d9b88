// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package redistest

import (
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestServerAndReplica(t *testing.T) {
	t.Parallel()
	s, err := Start(t.Context(), "maxmemory-policy noeviction")
	if err != nil {
		t.Fatal(err)
	}
	stopped(t, s)
	replica, err := s.StartReplica(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stopped(t, replica)
	c := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = c.Close() })
	if n, err := c.Wait(t.Context(), 1, 0).Result(); n != 1 || err != nil {
		t.Errorf("WAIT = %d, %v; want 1 replica", n, err)
	}
	freeze, thaw, err := replica.Freezer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := freeze(); err != nil {
		t.Fatal(err)
	}
	if err := thaw(); err != nil {
		t.Fatal(err)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c, err := StartCluster(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	replica, err := c.StartReplica(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	t.Cleanup(func() { _ = client.Close() })
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		if err := client.Set(t.Context(), key, "v", 0).Err(); err != nil {
			t.Errorf("SET %s: %v", key, err)
		}
	}
	if role, err := replica.info(t.Context(), "replication", "role"); role != "slave" || err != nil {
		t.Errorf("the replica's role is %q (error %v)", role, err)
	}
}

func TestBadSetting(t *testing.T) {
	t.Parallel()
	if s, err := Start(t.Context(), "no-such-setting 1"); err == nil {
		t.Error("started with a setting that does not exist", s.Stop())
	}
}

// stopped stops a server at the end, and expects nothing to be left.
func stopped(t *testing.T, s *Server) {
	t.Helper()
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(s.Dir); !os.IsNotExist(err) {
			t.Errorf("the directory is still there: %v", err)
		}
	})
}
