// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart_test renders the chart with helm, and compares it with config/.
package chart_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"leasehold.dev/test/api/apiserver"
	"leasehold.dev/test/cluster"
)

// namespace differs from that of config/, so that a forgotten one shows.
const namespace = "elsewhere"

var helm string

func TestMain(m *testing.M) {
	path, err := cluster.Tool(context.Background(), os.Stderr, "helm")
	if err != nil {
		fmt.Fprintln(os.Stderr, "no helm to test the chart with:", err)
		os.Exit(1)
	}
	helm = path
	os.Exit(m.Run())
}

// objects are what was rendered, by kind and name.
type objects map[string]*unstructured.Unstructured

func key(kind, name string) string { return kind + "/" + name }

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), helm, args...)
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("helm %v: %w\n%s", args, err, &problems)
	}
	return out.String(), nil
}

func chart() string { return filepath.Join(apiserver.Root(), "charts", "leasehold") }

// render returns what the chart installs with these values ("key=value").
func render(t *testing.T, values ...string) (objects, error) {
	t.Helper()
	args := []string{"template", "work", chart(), "--namespace", namespace, "--kube-version", "1.37.2"}
	for _, v := range values {
		args = append(args, "--set-json", v)
	}
	out, err := run(t, args...)
	if err != nil {
		return nil, err
	}
	return decode(t, out), nil
}

func mustRender(t *testing.T, values ...string) objects {
	t.Helper()
	o, err := render(t, values...)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func decode(t *testing.T, documents string) objects {
	t.Helper()
	list := objects{}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(documents), 4096)
	for {
		u := &unstructured.Unstructured{}
		err := decoder.Decode(&u.Object)
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(u.Object) == 0 {
			continue
		}
		k := key(u.GetKind(), u.GetName())
		if list[k] != nil {
			t.Fatalf("%s is rendered twice", k)
		}
		list[k] = u
	}
}
