// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package chart_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"leasehold.dev/test/api/apiserver"
	"leasehold.dev/test/cluster"
)

func TestRendersStrictly(t *testing.T) {
	t.Parallel()
	scheme, err := apiserver.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	if err := apiextensionsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for name, o := range mustRender(t) {
		typed, err := scheme.New(schema.FromAPIVersionAndKind(o.GetAPIVersion(), o.GetKind()))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		raw, err := json.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(typed); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, label := range []string{"name", "instance", "version", "part-of", "managed-by"} {
			if o.GetLabels()["app.kubernetes.io/"+label] == "" {
				t.Errorf("%s has no label app.kubernetes.io/%s", name, label)
			}
		}
		if strings.Contains(string(raw), "leasehold-system") {
			t.Errorf("%s names the namespace of config/ instead of the release's", name)
		}
	}
}

// TestEqualsConfig compares what is generated from config/ with what kubectl
// makes of it, all but the Deployment, in both directions.
func TestEqualsConfig(t *testing.T) {
	t.Parallel()
	got, want := mustRender(t), kustomized(t)
	delete(want, key("Namespace", "leasehold-system")) // helm --create-namespace
	for name := range want {
		if got[name] == nil {
			t.Errorf("the chart has no %s: add it to hack/chartgen", name)
		}
	}
	for name, o := range got {
		if want[name] == nil {
			t.Errorf("config/default has no %s", name)
			continue
		}
		if o.GetKind() == "Deployment" {
			continue
		}
		if diff := cmp.Diff(content(want[name].Object), content(o.Object)); diff != "" {
			t.Errorf("%s differs from config/ (run \"make chart\"):\n%s", name, diff)
		}
	}
}

// content is an object without metadata.
func content(object map[string]any) map[string]any {
	object = maps.Clone(object)
	delete(object, "metadata")
	return object
}

func kustomized(t *testing.T) objects {
	t.Helper()
	kubectl, err := cluster.Tool(t.Context(), os.Stderr, "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), kubectl, "kustomize", filepath.Join(apiserver.Root(), "config", "default")).Output()
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, strings.NewReplacer(
		":leasehold-system:", ":"+namespace+":",
		"namespace: leasehold-system", "namespace: "+namespace,
	).Replace(string(out)))
}

// TestDeploymentIsAsHardened compares the one template that is written twice.
func TestDeploymentIsAsHardened(t *testing.T) {
	t.Parallel()
	name := key("Deployment", "leasehold-manager")
	got := deployment(t, mustRender(t, `image.tag="dev"`, `agentImage.tag="dev"`)[name].Object)
	want := deployment(t, kustomized(t)[name].Object)
	got.Spec.Template.Labels, want.Spec.Template.Labels = nil, nil
	args := got.Spec.Template.Spec.Containers[0].Args
	got.Spec.Template.Spec.Containers[0].Args = slices.DeleteFunc(args, func(a string) bool { return strings.HasPrefix(a, "-v=") })
	if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
		t.Errorf("the chart's Deployment differs from config/manager:\n%s", diff)
	}
}

func deployment(t *testing.T, object map[string]any) *appsv1.Deployment {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	d := &appsv1.Deployment{}
	if err := json.Unmarshal(raw, d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestValues(t *testing.T) {
	t.Parallel()
	manager := key("Deployment", "leasehold-manager")
	crd := key("CustomResourceDefinition", "singletonjobs.leasehold.dev")
	digest := "sha256:" + strings.Repeat("0a", 32)
	for name, c := range map[string]struct {
		values       []string
		object       string
		has, hasNone []string
	}{
		"appVersion is the default tag": {nil, manager, []string{"leasehold.dev/manager:0.1.0", "--agent-image=leasehold.dev/agent:0.1.0"}, nil},
		"tags":                          {[]string{`image.tag="1.2.3"`, `agentImage.tag="4.5.6"`}, manager, []string{"leasehold.dev/manager:1.2.3", "leasehold.dev/agent:4.5.6"}, nil},
		"digests":                       {[]string{`image.digest="` + digest + `"`, `agentImage.digest="` + digest + `"`}, manager, []string{"leasehold.dev/manager@" + digest, "leasehold.dev/agent@" + digest}, []string{":0.1.0\""}},
		"replicas":                      {[]string{`replicas=3`}, manager, []string{`"replicas":3`}, nil},
		"scheduling": {[]string{`nodeSelector={"a":"b"}`, `tolerations=[{"key":"k"}]`, `affinity={"nodeAffinity":{}}`, `priorityClassName="high"`},
			manager, []string{`"nodeSelector":{"a":"b"}`, `"tolerations":[{"key":"k"}]`, `"affinity":{"nodeAffinity":{}}`, `"priorityClassName":"high"`}, nil},
		"pod labels and annotations": {[]string{`podLabels={"l":"1"}`, `podAnnotations={"a":"1"}`}, manager, []string{`"l":"1"`, `"a":"1"`}, nil},
		"pull secrets":               {[]string{`imagePullSecrets=[{"name":"s"}]`}, manager, []string{`"imagePullSecrets":[{"name":"s"}]`}, nil},
		"the definition is kept":     {nil, crd, []string{`"helm.sh/resource-policy":"keep"`}, nil},
		"the definition goes":        {[]string{`crds.keep=false`}, crd, nil, []string{"helm.sh/resource-policy"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, err := json.Marshal(mustRender(t, c.values...)[c.object].Object)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range c.has {
				if !strings.Contains(string(raw), s) {
					t.Errorf("%s does not have %s:\n%s", c.object, s, raw)
				}
			}
			for _, s := range c.hasNone {
				if strings.Contains(string(raw), s) {
					t.Errorf("%s has %s:\n%s", c.object, s, raw)
				}
			}
		})
	}
}

func TestSwitches(t *testing.T) {
	t.Parallel()
	all := mustRender(t)
	for value, kinds := range map[string][]string{
		"crds":                {"CustomResourceDefinition"},
		"policies":            {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"},
		"flowControl":         {"FlowSchema", "PriorityLevelConfiguration"},
		"networkPolicy":       {"NetworkPolicy"},
		"podDisruptionBudget": {"PodDisruptionBudget"},
	} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			without := mustRender(t, value+".enabled=false")
			for name, o := range all {
				want := !slices.Contains(kinds, o.GetKind())
				if got := without[name] != nil; got != want {
					t.Errorf("with %s.enabled=false, %s is rendered: %t, want %t", value, name, got, want)
				}
			}
		})
	}
	if o := mustRender(t, "serviceMonitor.enabled=true"); o[key("ServiceMonitor", "leasehold-manager")] == nil {
		t.Error("serviceMonitor.enabled=true renders no ServiceMonitor")
	}
}

func TestBadValuesAreRefused(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"unknown key":               `replica=2`,
		"unknown nested key":        `image.repo="x"`,
		"no replicas":               `replicas=0`,
		"replicas in words":         `replicas="two"`,
		"unknown pull policy":       `image.pullPolicy="Sometimes"`,
		"tag latest":                `image.tag="latest"`,
		"tag with a space":          `image.tag="1 2"`,
		"short digest":              `image.digest="sha256:12"`,
		"empty repository":          `image.repository=""`,
		"switch in words":           `policies.enabled="yes"`,
		"label that is no string":   `podLabels={"a":1}`,
		"pull secret by name alone": `imagePullSecrets=["s"]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := render(t, value)
			if err == nil {
				t.Fatalf("%s is accepted", value)
			}
			if !strings.Contains(err.Error(), "values.schema.json") && !strings.Contains(err.Error(), "schema") {
				t.Errorf("%s is refused by something else than the schema: %v", value, err)
			}
		})
	}
}

func TestLintsAndTellsWhatToDoNext(t *testing.T) {
	t.Parallel()
	if _, err := run(t, "lint", "--strict", chart()); err != nil {
		t.Error(err)
	}
	notes, err := run(t, "install", "work", chart(), "--namespace", namespace, "--dry-run=client", "--set", "policies.enabled=false,replicas=1")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"kubectl --namespace " + namespace, "kind: SingletonJob", "policies.enabled is false", "replicas is 1"} {
		if !strings.Contains(notes, s) {
			t.Errorf("the notes do not say %q:\n%s", s, notes)
		}
	}
}
