// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package etcdtest

import (
	"os"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestServer(t *testing.T) {
	t.Parallel()
	s, err := Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() })
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := c.Put(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.Dir); !os.IsNotExist(err) {
		t.Errorf("stat of the directory after Stop: %v, want it gone", err)
	}
}

func TestNoProgram(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", t.TempDir())
	if s, err := Start(t.Context()); err == nil {
		t.Error("started without a program", s.Stop())
	}
}
