// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package api_test tries the SingletonJob definition on a real API server.
package api_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/api/apiserver"
)

var (
	server *apiserver.Server
	api    client.Client
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if server, err = apiserver.Start(ctx); err != nil {
		return 1, err
	}
	defer func() {
		if stop := server.Stop(); err == nil {
			err = stop
		}
	}()
	if api, err = server.Client(); err != nil {
		return 1, err
	}
	return m.Run(), nil
}
