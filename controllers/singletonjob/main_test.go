// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package singletonjob

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"leasehold.dev/test/api/apiserver"
)

// api is an administrator's client of a real API server, which reads live.
var api client.WithWatch

// config is how to reach it.
var config *rest.Config

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	log.SetLogger(logr.Discard())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server, err := apiserver.Start(ctx)
	if err != nil {
		return 1, err
	}
	defer func() {
		if stop := server.Stop(); err == nil {
			err = stop
		}
	}()
	config = server.Config
	scheme, err := apiserver.Scheme()
	if err != nil {
		return 1, err
	}
	if api, err = client.NewWithWatch(server.Config, client.Options{Scheme: scheme}); err != nil {
		return 1, err
	}
	return m.Run(), nil
}
