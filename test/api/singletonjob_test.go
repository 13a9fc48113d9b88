// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/test/api/apiserver"
)

const namespace = "default"

// minimal is a job that leaves out all it can.
const minimal = `
apiVersion: leasehold.dev/v1alpha1
kind: SingletonJob
metadata: {name: minimal}
spec:
  template:
    spec:
      containers:
      - {name: work, image: work, command: [/work]}
      - {name: helper, image: helper}
`

type object = unstructured.Unstructured

// edit changes one field of a job; a nil value removes it.
type edit struct {
	field string
	value any
}

func job(t *testing.T, edits ...edit) *object {
	t.Helper()
	u := &object{}
	if err := yaml.Unmarshal([]byte(minimal), &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetNamespace(namespace)
	return change(t, u, edits...)
}

func change(t *testing.T, u *object, edits ...edit) *object {
	t.Helper()
	for _, e := range edits {
		fields := strings.Split(e.field, ".")
		if e.value == nil {
			unstructured.RemoveNestedField(u.Object, fields...)
			continue
		}
		if err := unstructured.SetNestedField(u.Object, e.value, fields...); err != nil {
			t.Fatal(err)
		}
	}
	return u
}

func TestSamplesAreAccepted(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(apiserver.Root(), "config", "samples", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	accepted := 0
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			u := &object{}
			if err := yaml.Unmarshal(raw, &u.Object); err != nil {
				t.Fatal(err)
			}
			u.SetNamespace(namespace)
			if err := api.Create(t.Context(), u, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
				t.Error(err)
			}
		})
		accepted++
	}
	if accepted < 4 {
		t.Errorf("%d samples were tried, want at least 4: look whether config/samples moved", accepted)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	for name, edits := range map[string][]edit{
		"no lease":    nil,
		"empty lease": {{"spec.lease", map[string]any{}}},
	} {
		t.Run(name, func(t *testing.T) {
			created := job(t, edits...)
			if err := api.Create(t.Context(), created, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			for field, want := range map[string]any{
				"spec.overlapPolicy":   string(v1alpha1.OverlapFence),
				"spec.lease.renewedBy": string(v1alpha1.RenewedByAgent),
				"spec.standbys":        int64(0),
			} {
				got, found, err := unstructured.NestedFieldNoCopy(created.Object, strings.Split(field, ".")...)
				if err != nil || !found || got != want {
					t.Errorf("%s is %v (found %t, %v), want %v", field, got, found, err, want)
				}
			}
			// The controller sets it, since it depends on renewedBy.
			if _, found, _ := unstructured.NestedFieldNoCopy(created.Object, "spec", "lease", "durationSeconds"); found {
				t.Error("the schema must not default durationSeconds")
			}
		})
	}
}

// TestTemplateIsKept guards against a schema that prunes what pods need.
func TestTemplateIsKept(t *testing.T) {
	t.Parallel()
	labels := map[string]any{"app": "work"}
	created := job(t, edit{"spec.template.metadata.labels", labels}, edit{"spec.template.metadata.annotations", labels},
		edit{"metadata.name", "kept"})
	if err := api.Create(t.Context(), created, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"labels", "annotations"} {
		got, _, err := unstructured.NestedStringMap(created.Object, "spec", "template", "metadata", field)
		if err != nil || got["app"] != "work" {
			t.Errorf("the template's %s are %v (%v), want those that were given", field, got, err)
		}
	}
}
