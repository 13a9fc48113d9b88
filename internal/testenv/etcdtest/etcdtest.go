// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package etcdtest runs private etcd servers for tests: one member, on ports of
// the loopback address that were free, nothing shared with a server that the
// machine may run, and nothing left behind. The program is that in
// KUBEBUILDER_ASSETS, else that of test/cluster, which is built if need be.
//
// Durability is switched off, so a server does not survive a crash of the
// machine.
package etcdtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold.dev/internal/testenv/child"
	"leasehold.dev/test/cluster"
)

// Server is a running etcd.
type Server struct {
	*child.Server
	port int
}

// Start starts a server, and returns when it answers. The server outlives ctx,
// which bounds only the start; it ends with Stop or with this process.
func Start(ctx context.Context) (*Server, error) {
	base, err := child.New("etcd")
	if err != nil {
		return nil, err
	}
	s := &Server{Server: base}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start etcd: %w", err), s.Stop())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context) error {
	program, err := find(ctx)
	if err != nil {
		return err
	}
	if s.port, err = child.FreePort(ctx); err != nil {
		return err
	}
	peer, err := child.FreePort(ctx)
	if err != nil {
		return err
	}
	client, peers := "http://"+s.Addr(), fmt.Sprintf("http://127.0.0.1:%d", peer)
	if err := s.Server.Start(nil, program, "--data-dir", filepath.Join(s.Dir, "data"), "--unsafe-no-fsync", "--log-level", "error",
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peers,
		"--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers); err != nil {
		return err
	}
	return s.WaitReady(ctx, s.ping)
}

func find(ctx context.Context) (string, error) {
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		return exec.LookPath(filepath.Join(assets, "etcd"))
	}
	path, err := cluster.Tool(ctx, os.Stderr, "etcd")
	if err != nil {
		return "", fmt.Errorf("no etcd to test with: set KUBEBUILDER_ASSETS to a directory that has it, or look why it cannot be built: %w", err)
	}
	return path, nil
}

// Addr is where the server listens for clients, "host:port".
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

func (s *Server) ping(ctx context.Context) error {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Addr()}, Context: ctx})
	if err != nil {
		return err
	}
	_, err = c.Get(ctx, "ping")
	return errors.Join(err, c.Close())
}
