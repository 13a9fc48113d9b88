// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package redistest runs private Redis servers for tests: one, one with
// replicas and Sentinel, or a cluster; each on ports of the loopback address that
// were free, nothing shared with a server that the machine may run, and nothing
// left behind. The program redis-server, 7.0 or newer, must be installed.
//
// Nothing is written to disk, so a server that stops has forgotten everything.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"

	"leasehold.dev/internal/testenv/child"
)

// packageName is the distribution's package with the server.
const packageName = "redis-server"

// MainName is the name of the primary that a Sentinel watches.
const MainName = "main"

// Server is a running Redis, or a Sentinel.
type Server struct {
	*child.Server
	port int
}

// Start starts a server, and returns when it answers. Settings are lines of its
// configuration, as in "maxmemory 3mb". The server outlives ctx, which bounds
// only the start; it ends with Stop or with this process.
func Start(ctx context.Context, settings ...string) (*Server, error) {
	return start(ctx, nil, append([]string{`save ""`, "appendonly no", "repl-diskless-sync-delay 0"}, settings...))
}

// StartReplica starts a replica of s, and returns when it has caught up.
func (s *Server) StartReplica(ctx context.Context, settings ...string) (*Server, error) {
	replica, err := Start(ctx, append([]string{fmt.Sprintf("replicaof 127.0.0.1 %d", s.port)}, settings...)...)
	if err != nil {
		return nil, err
	}
	if err := replica.WaitReady(ctx, replica.linked); err != nil {
		return nil, errors.Join(fmt.Errorf("replica: %w", err), replica.Stop())
	}
	return replica, nil
}

// StartSentinel starts a Sentinel that watches s as MainName, and lets a replica
// take its place, if it does not answer for half a second. It needs no other
// Sentinel to agree.
func (s *Server) StartSentinel(ctx context.Context) (*Server, error) {
	return start(ctx, []string{"--sentinel"}, []string{
		fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 1", MainName, s.port),
		"sentinel down-after-milliseconds " + MainName + " 500",
		"sentinel failover-timeout " + MainName + " 5000",
	})
}

func start(ctx context.Context, flags, settings []string) (*Server, error) {
	base, err := child.New("redis")
	if err != nil {
		return nil, err
	}
	s := &Server{Server: base}
	if err := s.start(ctx, flags, settings); err != nil {
		return nil, errors.Join(fmt.Errorf("start Redis: %w", err), s.Stop())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, flags, settings []string) error {
	program, err := child.Find("redis-server", packageName)
	if err != nil {
		return err
	}
	if s.port, err = child.FreePort(ctx); err != nil {
		return err
	}
	config := append([]string{"bind 127.0.0.1", "protected-mode no", fmt.Sprintf("port %d", s.port), "dir " + s.Dir}, settings...)
	file := filepath.Join(s.Dir, "redis.conf")
	if err := os.WriteFile(file, []byte(strings.Join(config, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	if err := s.Server.Start(nil, program, append([]string{file}, flags...)...); err != nil {
		return err
	}
	return s.WaitReady(ctx, s.ping)
}

// Addr is where the server listens, "host:port".
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Freezer returns what freezes and thaws the server: once frozen it cannot be
// asked for its process. Thaw it before Stop.
func (s *Server) Freezer(ctx context.Context) (freeze, thaw func() error, err error) {
	pid, err := s.pid(ctx)
	if err != nil {
		return nil, nil, err
	}
	return func() error { return syscall.Kill(pid, syscall.SIGSTOP) }, func() error { return syscall.Kill(pid, syscall.SIGCONT) }, nil
}

func (s *Server) pid(ctx context.Context) (int, error) {
	text, err := s.info(ctx, "server", "process_id")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

func (s *Server) ping(ctx context.Context) error {
	return s.with(func(c *redis.Client) error { return c.Ping(ctx).Err() })
}

func (s *Server) linked(ctx context.Context) error {
	status, err := s.info(ctx, "replication", "master_link_status")
	if err == nil && status != "up" {
		err = fmt.Errorf("the link to the primary is %q", status)
	}
	return err
}

// info is one field of a section of INFO.
func (s *Server) info(ctx context.Context, section, field string) (value string, err error) {
	err = s.with(func(c *redis.Client) error {
		text, err := c.Info(ctx, section).Result()
		if err != nil {
			return err
		}
		for line := range strings.Lines(text) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
				value = v
				return nil
			}
		}
		return fmt.Errorf("INFO %s has no %s", section, field)
	})
	return value, err
}

// with calls f with a client of its own.
func (s *Server) with(f func(*redis.Client) error) error {
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1})
	return errors.Join(f(c), c.Close())
}

func hasLine(text, line string) bool {
	for l := range strings.Lines(text) {
		if strings.TrimSpace(l) == line {
			return true
		}
	}
	return false
}
