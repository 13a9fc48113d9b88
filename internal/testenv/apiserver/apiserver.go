// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apiserver starts one real etcd and API server for the tests of a
// package.
package apiserver

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

var shared struct {
	once   sync.Once
	env    *envtest.Environment
	config *rest.Config
	err    error
}

// Main runs the tests of a package, for its TestMain, and ends the API server
// after them.
func Main(m *testing.M) int {
	defer stop()
	return m.Run()
}

func start() {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		shared.err = errors.New("KUBEBUILDER_ASSETS is not set: run `make test`, which builds an API server and sets it")
		return
	}
	log.SetLogger(logr.Discard())
	shared.env = &envtest.Environment{}
	shared.config, shared.err = shared.env.Start()
}

func stop() {
	if shared.config != nil {
		_ = shared.env.Stop()
	}
}

// Config reaches the API server as an administrator, without a limit of its own.
// The first call starts it.
func Config(t testing.TB) *rest.Config {
	t.Helper()
	config, err := Shared()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// Shared is Config for examples, which have no test.
func Shared() (*rest.Config, error) {
	shared.once.Do(start)
	if shared.err != nil {
		return nil, shared.err
	}
	config := rest.CopyConfig(shared.config)
	config.QPS = -1
	return config, nil
}

// Namespace makes a namespace for a test.
func Namespace(t testing.TB) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	made, err := kubernetes.NewForConfigOrDie(Config(t)).CoreV1().Namespaces().Create(context.Background(), ns, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made.Name
}
