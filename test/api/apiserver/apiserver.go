// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserver gives tests a real API server with Leasehold's definitions,
// and nothing else: no scheduler, no controllers, no kubelets.
package apiserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"leasehold.dev/test/cluster"
)

// startTimeout leaves room for a machine that is busy with other tests.
const startTimeout = 2 * time.Minute

// Server is a running API server.
type Server struct {
	// Config is an administrator's (group system:masters).
	Config *rest.Config

	environment *envtest.Environment
}

// Start starts etcd and an API server on loopback, with the definitions of
// config/crd. It uses the programs in KUBEBUILDER_ASSETS, else those of
// test/cluster, which it builds if need be.
func Start(ctx context.Context) (*Server, error) {
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		var err error
		if assets, err = cluster.Assets(ctx, os.Stderr); err != nil {
			return nil, fmt.Errorf("no API server to test with: set KUBEBUILDER_ASSETS, or look why it cannot be built: %w", err)
		}
	}
	environment := &envtest.Environment{
		BinaryAssetsDirectory:    assets,
		CRDDirectoryPaths:        []string{filepath.Join(Root(), "config", "crd", "bases")},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: startTimeout,
		ControlPlaneStopTimeout:  startTimeout,
	}
	config, err := environment.Start()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("API server: %w", err), environment.Stop())
	}
	config.QPS, config.Burst = -1, -1 // Tests measure the server, not a limiter.
	return &Server{Config: config, environment: environment}, nil
}

// Stop ends the server and removes its data.
func (s *Server) Stop() error { return s.environment.Stop() }

// Client returns an administrator's client that reads live.
func (s *Server) Client() (client.Client, error) { return ClientFor(s.Config) }

// Root is the top of the repository.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}
