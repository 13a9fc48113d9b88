// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Command chartgen writes those templates of the chart whose text is that of
// config/, so that the two ways of installing never differ. What depends on the
// chart's values (the Deployment) is written by hand.
//
// Usage: chartgen, at the top of the repository.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const templates = "charts/leasehold/templates"

// part is one template.
type part struct {
	template string
	// sources are files below config/.
	sources []string
	// condition is the value that the template depends on; empty: none.
	condition string
}

var parts = []part{
	{"crds.yaml", []string{"crd/bases/leasehold.dev_singletonjobs.yaml"}, ".Values.crds.enabled"},
	{"policies.yaml", []string{"policy/leases.yaml", "policy/pods.yaml"}, ".Values.policies.enabled"},
	{"rbac.yaml", []string{"rbac/service_account.yaml", "rbac/role.yaml", "rbac/role_binding.yaml",
		"rbac/leader_election_role.yaml", "rbac/metrics_role.yaml", "rbac/singletonjob_roles.yaml"}, ""},
	{"flowcontrol.yaml", []string{"flowcontrol/flowcontrol.yaml"}, ".Values.flowControl.enabled"},
	{"networkpolicy.yaml", []string{"network-policy/network_policy.yaml"}, ".Values.networkPolicy.enabled"},
	{"poddisruptionbudget.yaml", []string{"manager/disruption_budget.yaml"}, ".Values.podDisruptionBudget.enabled"},
	{"service.yaml", []string{"manager/metrics_service.yaml"}, ""},
	{"servicemonitor.yaml", []string{"prometheus/service_monitor.yaml"}, ".Values.serviceMonitor.enabled"},
}

func main() {
	for _, p := range parts {
		if err := p.write(); err != nil {
			fmt.Fprintln(os.Stderr, "chartgen:", err)
			os.Exit(1)
		}
	}
}

func (p part) write() error {
	var out strings.Builder
	fmt.Fprintf(&out, "{{- /* From config/ by \"make chart\": edit %s there. */ -}}\n", strings.Join(p.sources, ", "))
	if p.condition != "" {
		fmt.Fprintf(&out, "{{- if %s }}\n", p.condition)
	}
	for _, source := range p.sources {
		raw, err := os.ReadFile(filepath.Join("config", source))
		if err != nil {
			return err
		}
		for _, document := range documents(string(raw)) {
			templated, err := template(document)
			if err != nil {
				return fmt.Errorf("config/%s: %w", source, err)
			}
			out.WriteString("---\n" + templated)
		}
	}
	if p.condition != "" {
		out.WriteString("{{- end }}\n")
	}
	return os.WriteFile(filepath.Join(templates, p.template), []byte(out.String()), 0o644)
}

// documents splits a file, and drops the licence at its head.
func documents(file string) []string {
	const licence = "# Copyright The Leasehold Authors.\n# SPDX-License-Identifier: Apache-2.0\n"
	file = strings.TrimPrefix(strings.TrimPrefix(file, licence), "#\n")
	var list []string
	for _, d := range strings.Split("\n"+file, "\n---\n") {
		if d = strings.TrimSpace(d); d != "" {
			list = append(list, d+"\n")
		}
	}
	return list
}

// template replaces the namespace by the release's, and adds the chart's labels.
func template(document string) (string, error) {
	if strings.Contains(document, "{{") {
		return "", fmt.Errorf("%q would be taken for a template: write it otherwise", "{{")
	}
	document = strings.ReplaceAll(document, "namespace: leasehold-system", "namespace: {{ .Release.Namespace }}")
	document = strings.ReplaceAll(document, ":leasehold-system:", ":{{ .Release.Namespace }}:")
	if strings.Contains(document, "leasehold-system") {
		return "", fmt.Errorf("leasehold-system is in a place that chartgen does not know: teach it")
	}
	lines := strings.SplitAfter(document, "\n")
	for i, line := range lines {
		if line != "metadata:\n" {
			continue
		}
		return insert(lines, i+1), nil
	}
	return "", fmt.Errorf("an object without metadata")
}

// insert adds to the metadata that begin at a line. A definition also gets the
// annotation with which helm keeps it.
func insert(lines []string, at int) string {
	const (
		labels = "    {{- include \"leasehold.labels\" . | nindent 4 }}\n"
		keep   = "    {{- if .Values.crds.keep }}\n    helm.sh/resource-policy: keep\n    {{- end }}\n"
	)
	var out strings.Builder
	out.WriteString(strings.Join(lines[:at], ""))
	hasLabels, inMetadata := false, true
	for _, line := range lines[at:] {
		inMetadata = inMetadata && strings.HasPrefix(line, "  ")
		out.WriteString(line)
		switch {
		case inMetadata && line == "  labels:\n":
			out.WriteString(labels)
			hasLabels = true
		case inMetadata && line == "  annotations:\n":
			out.WriteString(keep)
		}
	}
	if hasLabels {
		return out.String()
	}
	return strings.Replace(out.String(), "metadata:\n", "metadata:\n  labels:\n"+labels, 1)
}
