// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/go-logr/logr"

	"leasehold.dev/test/api/apiserver"
)

// Config reaches the API server that all tests of this folder share, each in a
// namespace of its own.
var Config *rest.Config

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		return 1, errors.New(`KUBEBUILDER_ASSETS is not set, and these tests need an API server:
  export KUBEBUILDER_ASSETS="$(go run ./test/cluster/cmd/cluster assets)"`)
	}
	ctrl.SetLogger(logr.Discard())
	server, err := apiserver.Start(context.Background())
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	Config = server.Config
	return m.Run(), nil
}

func kubectlPath() string { return filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl") }
