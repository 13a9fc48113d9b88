// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/test/api/apiserver"
)

// TestEveryRuleIsTried fails for a rule of the definition that no case violates:
// a rule that refuses nothing, or that nobody has looked at.
func TestEveryRuleIsTried(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	hear := func(err error) {
		if err == nil {
			t.Error("a case that should be refused is accepted")
			return
		}
		said.WriteString(err.Error())
	}
	for _, c := range impossibles {
		hear(tryCreate(t, c.edits...))
	}
	hear(tryCreate(t, edit{"metadata.name", strings.Repeat("n", 53)}))
	hear(tryCreate(t, edit{"metadata.name", "ledger.writer"}))
	hear(tryCreate(t, edit{"spec.lease.name", "Ledger"}))
	hear(changeLeaseName(t, "one", "two"))

	rules := 0
	for path, schema := range allSchemas(t) {
		for _, rule := range schema.XValidations {
			rules++
			if !strings.Contains(said.String(), rule.Message) {
				t.Errorf("no case violates the rule of %q that says %q: add one", path, rule.Message)
			}
			// A refusal names the field where one field is to blame, and says
			// after the colon what to do about it.
			if _, remedy, found := strings.Cut(rule.Message, ": "); !found || remedy == "" {
				if !strings.Contains(rule.Message, "(") {
					t.Errorf("%q does not say what to do", rule.Message)
				}
			}
		}
	}
	if rules < 13 {
		t.Errorf("%d rules were found, want 13 or more: look whether the definition moved", rules)
	}
}

// TestUnknownFields are refused where the client asks for that, as kubectl does.
func TestUnknownFields(t *testing.T) {
	t.Parallel()
	for _, field := range []string{
		"spec.overlap", "spec.lease.duration", "spec.lease.ttlSecondsAfterFinished", "spec.template.spec.container", "spec.template.overlapPolicy",
	} {
		err := tryCreate(t, edit{field, "x"})
		if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `unknown field "`+field+`"`) {
			t.Errorf("got %v, want a refusal that names the unknown field %s", err, field)
		}
		if err := api.Create(t.Context(), job(t, edit{field, "x"}), client.DryRunAll); err != nil {
			t.Errorf("without strict validation %s is refused: %v", field, err)
		}
	}
}

func definition(t *testing.T) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	file := filepath.Join(apiserver.Root(), "config", "crd", "bases", "leasehold.dev_singletonjobs.yaml")
	definitions, err := apiserver.ReadObjects[apiextensionsv1.CustomResourceDefinition](file)
	if err != nil {
		t.Fatal(err)
	}
	return *definitions[0].Spec.Versions[0].Schema.OpenAPIV3Schema
}

// allSchemas are the schemas of the definition by path, the pod template's own
// fields left out: those are the API server's, not ours.
func allSchemas(t *testing.T) map[string]apiextensionsv1.JSONSchemaProps {
	t.Helper()
	all := map[string]apiextensionsv1.JSONSchemaProps{}
	walk(all, "", definition(t))
	return all
}

func specSchemas(t *testing.T) map[string]apiextensionsv1.JSONSchemaProps {
	t.Helper()
	all := map[string]apiextensionsv1.JSONSchemaProps{}
	walk(all, "spec", definition(t).Properties["spec"])
	return all
}

func walk(all map[string]apiextensionsv1.JSONSchemaProps, path string, schema apiextensionsv1.JSONSchemaProps) {
	all[path] = schema
	for name, property := range schema.Properties {
		if below := strings.TrimPrefix(path+"."+name, "."); below != "spec.template" {
			walk(all, below, property)
		}
	}
	if schema.Items != nil && schema.Items.Schema != nil {
		walk(all, path+"[]", *schema.Items.Schema)
	}
}
