// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package components

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRequiredVersion(t *testing.T) {
	modfile := []byte("module x\n\nrequire a.b/c v1.2.3\n\nrequire (\n\td.e/f/v2 v2.0.1 // indirect\n)\n\nreplace d.e/f/v2 => d.e/f/v2 v2.9.9\n")
	for module, want := range map[string]string{"a.b/c": "v1.2.3", "d.e/f/v2": "v2.0.1", "a.b": ""} {
		got, err := requiredVersion(modfile, module)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("version of %s: got %q, %v; want %q", module, got, err, want)
		}
	}
}

func TestBuiltName(t *testing.T) {
	for pkg, want := range map[string]string{
		"k8s.io/kubernetes/cmd/kubelet": "kubelet",
		"go.etcd.io/etcd/server/v3":     "server",
		"example.com/v":                 "v",
		"example.com/v2ray":             "v2ray",
	} {
		if got := builtName(pkg); got != want {
			t.Errorf("name of %s: got %s, want %s", pkg, got, want)
		}
	}
}

func TestByFamily(t *testing.T) {
	got, err := byFamily([]string{"kubelet", "etcd", "kubectl"})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || len(got["kubernetes"]) != 2 || len(got["etcd"]) != 1 {
		t.Errorf("got %v", got)
	}
	if _, err := byFamily([]string{"etcd", "kubeadm"}); err == nil || !strings.Contains(err.Error(), "kubeadm") {
		t.Errorf("unknown program: got error %v, want one that names it", err)
	}
}

// Every family's module must pin the version that the recipe is named after, and all
// programs as tools, or go build would refuse.
func TestModulesPinAllPrograms(t *testing.T) {
	store := &Store{Root: filepath.Join("..", "..", "..", ".."), Cache: t.TempDir()}
	for _, f := range families() {
		r, err := store.recipe(f)
		if err != nil {
			t.Errorf("family %s: %v", f.name, err)
			continue
		}
		modfile, err := os.ReadFile(filepath.Join(r.dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		for _, pkg := range f.programs {
			if !strings.Contains(string(modfile), "tool "+pkg+"\n") && !strings.Contains(string(modfile), "\t"+pkg+"\n") {
				t.Errorf("family %s: %s is no tool of its module", f.name, pkg)
			}
		}
	}
}

func TestRecipeChangesWithPins(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "test", "cluster", "components", "etcd")
	write := func(version string) {
		t.Helper()
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"go.mod": "require go.etcd.io/etcd/server/v3 " + version + "\n", "go.sum": ""} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	store := &Store{Root: root, Cache: t.TempDir()}
	f, err := familyOf("etcd")
	if err != nil {
		t.Fatal(err)
	}
	outputs := map[string]bool{}
	for _, version := range []string{"v3.7.2", "v3.7.3", "v3.7.2"} {
		write(version)
		r, err := store.recipe(f)
		if err != nil {
			t.Fatal(err)
		}
		outputs[r.output] = true
	}
	if len(outputs) != 2 {
		t.Errorf("want one place for each version, got %v", outputs)
	}
}

func TestKubernetesVersion(t *testing.T) {
	flags := strings.Join(kubernetesVersion("v1.37.2"), " ")
	for _, want := range []string{"gitVersion=v1.37.2", "gitMajor=1", "gitMinor=37"} {
		if !strings.Contains(flags, want) {
			t.Errorf("flags %s lack %s", flags, want)
		}
	}
}
