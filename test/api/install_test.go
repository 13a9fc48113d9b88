// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"path/filepath"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"leasehold.dev/test/api/apiserver"
)

// TestInstall installs as users do, with a client-side apply, which keeps the
// whole object in an annotation. Nothing may differ afterwards from what was
// applied, or tools that compare would never rest.
func TestInstall(t *testing.T) {
	dir := filepath.Join(apiserver.Root(), "config", "default")
	if _, err := server.Kubectl(t.Context(), "apply", "--validate=strict", "-k", dir); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Kubectl(t.Context(), "diff", "-k", dir); err != nil {
		t.Errorf("what was applied differs from what the server has: %v", err)
	}
}

// TestDefinitionLeavesRoom guards the size of the definition: its annotation may
// grow to 256 KiB, and with it the object in etcd doubles.
func TestDefinitionLeavesRoom(t *testing.T) {
	file := filepath.Join(apiserver.Root(), "config", "crd", "bases", "leasehold.dev_singletonjobs.yaml")
	definitions, err := apiserver.ReadObjects[apiextensionsv1.CustomResourceDefinition](file)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := definitions[0].Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if limit := 128 << 10; len(raw) > limit {
		t.Errorf("the definition has %d bytes, more than %d: look what crdgen leaves in it", len(raw), limit)
	}
}
