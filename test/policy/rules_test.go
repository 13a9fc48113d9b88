// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// everyRuleRefuses fails for a rule of the policies that has refused none of the
// attempts: it is not needed, or not tried.
func everyRuleRefuses(t *testing.T, w *world) {
	rules := 0
	for _, p := range policies(t) {
		for _, v := range p.Spec.Validations {
			rules++
			says := v.Message
			if v.MessageExpression != "" {
				says, _, _ = strings.Cut(strings.TrimPrefix(v.MessageExpression, "'"), "'")
			}
			if !slices.ContainsFunc(w.refusals, func(r string) bool { return strings.Contains(r, says) }) {
				t.Errorf("%s: nothing was refused because %q: try what that rule is for, or remove it", p.Name, says)
			}
		}
	}
	if rules < 16 {
		t.Errorf("%d rules were found, want 16 or more: look whether config/policy moved", rules)
	}
}

// TestPoliciesFailClosed looks at what no attempt can show: that a rule which
// cannot be evaluated refuses, and that nothing is exempt.
func TestPoliciesFailClosed(t *testing.T) {
	t.Parallel()
	for _, p := range policies(t) {
		if p.Spec.FailurePolicy == nil || *p.Spec.FailurePolicy != admissionv1.Fail {
			t.Errorf("%s: failurePolicy is %v, want Fail", p.Name, p.Spec.FailurePolicy)
		}
		if m := p.Spec.MatchConstraints; len(m.ExcludeResourceRules) > 0 || m.NamespaceSelector != nil {
			t.Errorf("%s: %v and %v are exempt", p.Name, m.ExcludeResourceRules, m.NamespaceSelector)
		}
		for _, v := range p.Spec.Validations {
			if v.Message == "" {
				t.Errorf("%s: %q has no message", p.Name, v.Expression)
			}
		}
	}
	for _, name := range files {
		binding, ok := readPolicies(t, name)[1].(*admissionv1.ValidatingAdmissionPolicyBinding)
		if !ok || !slices.Equal(binding.Spec.ValidationActions, []admissionv1.ValidationAction{admissionv1.Deny}) || binding.Spec.MatchResources != nil {
			t.Errorf("%s: want a binding second, which denies, and everywhere", name)
		}
	}
}

// files are those of config/policy: a policy and its binding in each.
var files = []string{"leases.yaml", "pods.yaml"}

func policies(t *testing.T) []*admissionv1.ValidatingAdmissionPolicy {
	t.Helper()
	var all []*admissionv1.ValidatingAdmissionPolicy
	for _, name := range files {
		p, ok := readPolicies(t, name)[0].(*admissionv1.ValidatingAdmissionPolicy)
		if !ok {
			t.Fatalf("%s: want a policy first", name)
		}
		all = append(all, p)
	}
	return all
}
