// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"log"
	"os"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"leasehold.dev/internal/testenv/etcdtest"
)

// patience bounds every wait for something that should happen at once.
const patience = time.Minute

var server *etcdtest.Server

func TestMain(m *testing.M) { os.Exit(withServer(m.Run)) }

func withServer(run func() int) int {
	// The program is built if need be.
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	defer cancel()
	var err error
	if server, err = etcdtest.Start(ctx); err != nil {
		log.Print(err)
		return 1
	}
	defer func() {
		if err := server.Stop(); err != nil {
			log.Print(err)
		}
	}()
	return run()
}

// open opens a client that the test closes, and that is quick to connect again
// after a connection was broken.
func open(t *testing.T, addr string) *clientv3.Client {
	t.Helper()
	params := grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: time.Millisecond, Multiplier: 1.5, MaxDelay: 50 * time.Millisecond}, MinConnectTimeout: patience}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{addr}, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithConnectParams(params)},
	})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
