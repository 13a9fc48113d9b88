// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
	"leasehold.dev/test/api/apiserver"
)

const kindJob = "SingletonJob"

// manifest is one object of a page or a sample.
type manifest struct{ source, kind, text string }

// manifests are the objects of all fenced blocks of YAML, and of the samples.
func manifests(t *testing.T) []manifest {
	t.Helper()
	var all []manifest
	add := func(source, text string) {
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(text), &meta); err != nil {
			t.Errorf("%s: %v:\n%s", source, err, text)
		}
		if meta.Kind != "" {
			all = append(all, manifest{source, meta.Kind, text})
		}
	}
	for _, p := range pages(t) {
		for _, b := range blocks(p, "yaml") {
			add(b.page, b.text)
		}
	}
	samples, err := filepath.Glob(filepath.Join(apiserver.Root(), "config", "samples", "*.yaml"))
	if err != nil || len(samples) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, file := range samples {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		add(file, string(raw))
	}
	return all
}

// accept tries an object out: strictly, and without keeping it.
func accept(ctx context.Context, api client.Client, m manifest) error {
	if m.kind == kindJob {
		if err := yaml.UnmarshalStrict([]byte(m.text), &v1alpha1.SingletonJob{}); err != nil {
			return err
		}
	}
	u := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(m.text), &u.Object); err != nil {
		return err
	}
	if m.kind == kindJob {
		u.SetNamespace(metav1.NamespaceDefault)
	}
	return client.WithFieldValidation(api, metav1.FieldValidationStrict).Create(ctx, u, client.DryRunAll)
}

func TestOnAPIServer(t *testing.T) {
	server, err := apiserver.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	api, err := server.Client()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("manifests", func(t *testing.T) { testManifests(t, api) })
	t.Run("bad manifests", func(t *testing.T) { testBadManifests(t, api) })
	t.Run("kustomization", func(t *testing.T) { testKustomization(t, server) })
	t.Run("patches of jobs", func(t *testing.T) { testJobPatches(t, api) })
	t.Run("end by hand", func(t *testing.T) { testEndByHand(t, api) })
	t.Run("roles of the library", func(t *testing.T) { testLibraryRoles(t, server, api) })
}

func testManifests(t *testing.T, api client.Client) {
	jobs := 0
	for _, m := range manifests(t) {
		if m.kind == "Kustomization" {
			continue
		}
		if m.kind == kindJob {
			jobs++
		}
		if err := accept(t.Context(), api, m); err != nil {
			t.Errorf("%s: %v:\n%s", m.source, err, m.text)
		}
	}
	if jobs < 8 {
		t.Errorf("only %d jobs were tried", jobs)
	}
}

// testBadManifests: what readers must not be shown is caught, one change each.
func testBadManifests(t *testing.T, api client.Client) {
	const good = "apiVersion: leasehold.dev/v1alpha1\nkind: SingletonJob\nmetadata:\n  name: x\nspec:\n" +
		"  template:\n    spec:\n      containers:\n      - name: x\n        image: x\n        command: [x]\n"
	if err := accept(t.Context(), api, manifest{"", kindJob, good}); err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"unknown field":      strings.Replace(good, "spec:\n", "spec:\n  standby: 1\n", 1),
		"unknown pod field":  strings.Replace(good, "image: x", "image: x\n        imge: y", 1),
		"twice":              strings.Replace(good, "image: x", "image: x\n        image: y", 1),
		"refused by a rule":  strings.Replace(good, "spec:\n", "spec:\n  backoffLimit: 3\n", 1),
		"refused by an enum": strings.Replace(good, "spec:\n", "spec:\n  overlapPolicy: Allow\n", 1),
	} {
		if err := accept(t.Context(), api, manifest{"", kindJob, bad}); err == nil {
			t.Errorf("%s is not caught", name)
		}
	}
}

// testKustomization builds the kustomization that names a user's own images.
func testKustomization(t *testing.T, server *apiserver.Server) {
	build := func(text string) (string, error) {
		dir := t.TempDir()
		if err := os.CopyFS(filepath.Join(dir, "config"), os.DirFS(filepath.Join(apiserver.Root(), "config"))); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return server.Kubectl(t.Context(), "kustomize", dir)
	}
	for _, m := range manifests(t) {
		if m.kind != "Kustomization" || !strings.HasSuffix(m.source, "getting-started.md") {
			continue
		}
		out, err := build(m.text)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"--agent-image=registry.example/leasehold/agent:0.1.0\n", "image: registry.example/leasehold/manager:0.1.0\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("the result lacks %q", want)
			}
		}
		if _, err := build(strings.ReplaceAll(m.text, "args/1", "args/0")); err == nil {
			t.Error("a patch of another argument is not caught")
		}
		return
	}
	t.Error("docs/getting-started.md has no kustomization")
}

var patchArgument = regexp.MustCompile(`(?s)patch (sj|lease) \w+ --type=merge --patch='(.*?)'`)

// patchesOf are the merge patches that a page's shell blocks make.
func patchesOf(t *testing.T, name, kind string) []string {
	t.Helper()
	var all []string
	for _, b := range blocks(page{name, read(t, name)}, "sh") {
		for _, m := range patchArgument.FindAllStringSubmatch(b.text, -1) {
			if m[1] == kind {
				all = append(all, m[2])
			}
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s patches no %s", name, kind)
	}
	return all
}

func testJobPatches(t *testing.T, api client.Client) {
	job := &v1alpha1.SingletonJob{}
	if err := yaml.UnmarshalStrict([]byte(manifests(t)[0].text), job); err != nil {
		t.Fatal(err)
	}
	job.Namespace, job.Name = metav1.NamespaceDefault, "patched"
	if err := api.Create(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	strict := client.WithFieldValidation(api, metav1.FieldValidationStrict)
	patches := append(patchesOf(t, "docs/operations.md", "sj"), `{"spec": {"minToken": 1}}`)
	for i, patch := range patches {
		before := job.Generation
		err := strict.Patch(t.Context(), job, client.RawPatch(types.MergePatchType, []byte(patch)))
		if bad := i == len(patches)-1; bad != (err != nil) {
			t.Errorf("patch %s: %v", patch, err)
		} else if !bad && job.Generation == before {
			t.Errorf("patch %s changes nothing", patch)
		}
	}
}

// testEndByHand: the patch of the break-glass group ends a term.
func testEndByHand(t *testing.T, api client.Client) {
	holder, seconds, term := "pod_uid", int32(15), int32(1)
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: metav1.NamespaceDefault, Name: "by-hand",
		Labels: map[string]string{v1alpha1.LabelManaged: "true"},
		Annotations: map[string]string{
			v1alpha1.AnnotationToken: "694", v1alpha1.AnnotationHolder: holder, v1alpha1.AnnotationTerm: "1", v1alpha1.AnnotationStarted: "n",
		},
	}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, LeaseTransitions: &term}}
	if err := api.Create(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	phase := func() lease.Phase {
		r, err := lease.Parse(l)
		if err != nil {
			t.Fatal(err)
		}
		return r.Phase()
	}
	if got := phase(); got != lease.Live {
		t.Fatalf("the phase is %s before, want Live", got)
	}
	for _, patch := range patchesOf(t, "docs/when-it-is-stuck.md", "lease") {
		if err := api.Patch(t.Context(), l, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Fatal(err)
		}
	}
	if got := phase(); got != lease.Free || l.Annotations[v1alpha1.AnnotationOutcome] != string(v1alpha1.OutcomeVouched) {
		t.Errorf("the phase is %s with outcome %s after, want Free, Vouched", got, l.Annotations[v1alpha1.AnnotationOutcome])
	}
}
