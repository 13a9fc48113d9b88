// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policy_test tries the admission policies of config/policy on a real API
// server, with tokens that it bound to real pods: who may do what to a managed
// Lease, and to a pod that asks for one.
package policy_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/api/apiserver"
)

// TestPolicies makes every attempt twice. Without the policies each must succeed
// and have an effect, or its refusal later would prove nothing.
func TestPolicies(t *testing.T) {
	w := newWorld(t)
	t.Run("without", func(t *testing.T) { tryAll(t, w, false) })
	if t.Failed() {
		t.Fatal("attempts failed without any policy: correct them, for the policies are not to blame")
	}
	w.install(t)
	t.Run("with", func(t *testing.T) { tryAll(t, w, true) })
	t.Run("every rule", func(t *testing.T) { everyRuleRefuses(t, w) })
}

func tryAll(t *testing.T, w *world, enforced bool) {
	t.Run("leases", func(t *testing.T) { tryLeases(t, w, enforced) })
	t.Run("pods", func(t *testing.T) { tryPods(t, w, enforced) })
}

// judge compares what came of an attempt with what should.
func (w *world) judge(t *testing.T, err error, refused, enforced bool) {
	t.Helper()
	switch {
	case refused && enforced:
		if !apierrors.IsForbidden(err) {
			t.Errorf("the policies let it pass (%v), want it refused as Forbidden", err)
			return
		}
		w.heard(err)
	case err != nil:
		t.Errorf("refused, want it to pass: %v", err)
	}
}

// install applies the policies and waits until both refuse: a server compiles
// them a moment after they are written.
func (w *world) install(t *testing.T) {
	t.Helper()
	for _, name := range files {
		for _, object := range readPolicies(t, name) {
			if err := w.admin.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
	since := time.Now()
	probes := []client.Object{w.newLease("probe", nil), w.newPod("probe", map[string]string{tokenKey: "1"})}
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		for _, probe := range probes {
			err := w.client(user).Create(ctx, probe.DeepCopyObject().(client.Object), client.DryRunAll)
			if !apierrors.IsForbidden(err) {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		t.Fatalf("the policies do not become active: %v", err)
	}
	t.Logf("policies active after %s", time.Since(since).Round(time.Millisecond))
}

// readPolicies returns the policy and the binding of one file.
func readPolicies(t *testing.T, name string) []client.Object {
	t.Helper()
	file := filepath.Join(apiserver.Root(), "config", "policy", name)
	metas, err := apiserver.ReadObjects[metav1.PartialObjectMetadata](file)
	if err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	for i, meta := range metas {
		switch meta.Kind {
		case "ValidatingAdmissionPolicy":
			objects = append(objects, document[admissionv1.ValidatingAdmissionPolicy](t, file, i))
		case "ValidatingAdmissionPolicyBinding":
			objects = append(objects, document[admissionv1.ValidatingAdmissionPolicyBinding](t, file, i))
		default:
			t.Fatalf("%s: unexpected %s", file, meta.Kind)
		}
	}
	return objects
}

func document[T any](t *testing.T, file string, i int) *T {
	t.Helper()
	all, err := apiserver.ReadObjects[T](file)
	if err != nil {
		t.Fatal(err)
	}
	return all[i]
}

var server *apiserver.Server

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
	return m.Run(), nil
}
