// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package docs_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"leasehold.dev/internal/agent"
	"leasehold.dev/internal/manager"
)

// constants are the string constants of a Go file whose names begin with one
// of the prefixes, by name.
func constants(t *testing.T, file string, prefixes ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for name, value := range declared(t, file, token.CONST) {
		literal, ok := value.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING || !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		found[name] = text
	}
	if len(found) == 0 {
		t.Fatalf("%s declares no constants %v", file, prefixes)
	}
	return found
}

// declared are the constants or variables of a Go file with their values.
func declared(t *testing.T, file string, kind token.Token) map[string]ast.Expr {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, read(t, file), 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]ast.Expr{}
	for _, d := range parsed.Decls {
		general, ok := d.(*ast.GenDecl)
		if !ok || general.Tok != kind {
			continue
		}
		for _, s := range general.Specs {
			values := s.(*ast.ValueSpec)
			for i, name := range values.Names {
				if i < len(values.Values) {
					found[name.Name] = values.Values[i]
				}
			}
		}
	}
	return found
}

// missing are the words that a page does not have, set as code.
func missing(text string, words []string) []string {
	return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return strings.Contains(text, "`"+w+"`") })
}

const (
	labels     = "api/v1alpha1/labels.go"
	conditions = "api/v1alpha1/conditions.go"
	grantPlan  = "controllers/grant/plan/types.go"
	jobPlan    = "controllers/singletonjob/plan/types.go"
	definition = "config/crd/bases/leasehold.dev_singletonjobs.yaml"
)

func TestPagesAreComplete(t *testing.T) {
	values := func(all ...map[string]string) []string {
		var words []string
		for _, one := range all {
			words = slices.AppendSeq(words, maps.Values(one))
		}
		return words
	}
	for _, c := range []struct {
		name, page string
		words      []string
	}{
		{"names", "annotations.md", values(constants(t, labels, ""))},
		{"reasons for which a Lease is closed", "annotations.md", values(constants(t, conditions, "Closed"))},
		{"conditions", "when-it-is-stuck.md", values(constants(t, conditions, "Condition", "Blocked"))},
		{"outcomes", "when-it-is-stuck.md", values(constants(t, conditions, "Outcome"))},
		{"reasons", "when-it-is-stuck.md", values(constants(t, jobPlan, "Reason"))},
		{"events of jobs", "when-it-is-stuck.md", values(constants(t, jobPlan, "Event"))},
		{"events of Leases", "when-it-is-stuck.md", values(constants(t, grantPlan, "Reason"))},
		{"fields", "api-reference.md", fields(t)},
		{"flags of the manager", "operations.md", managerFlags()},
		{"flags of the agent", "who-renews.md", agentFlags(t)},
		{"metrics", "operations.md", metricNames(t)},
		{"errors", "fencing-postgresql.md", fencingErrors(t)},
		{"states", "fencing-postgresql.md", []string{
			constants(t, "fencing/postgres/classify.go", "state")["stateRefused"],
			constants(t, "fencing/postgres/classify.go", "state")["stateNotArmed"],
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := read(t, path.Join("docs", c.page))
			if len(c.words) < 2 {
				t.Fatalf("only %q were looked for", c.words)
			}
			if lost := missing(text, c.words); len(lost) > 0 {
				t.Errorf("docs/%s does not have %q", c.page, lost)
			}
			for _, w := range c.words {
				if !slices.Contains(missing(strings.ReplaceAll(text, "`"+w+"`", ""), c.words), w) {
					t.Errorf("the loss of %q is not caught", w)
				}
			}
		})
	}
}

// fields are the paths of all fields of spec and status, without those of
// Kubernetes' own types.
func fields(t *testing.T) []string {
	t.Helper()
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema schema }
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, definition)), &crd); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, v := range crd.Spec.Versions {
		for _, top := range []string{"spec", "status"} {
			all = append(all, v.Schema.OpenAPIV3Schema.Properties[top].paths(top)...)
		}
	}
	return all
}

type schema struct {
	Properties map[string]schema
	Items      *schema
}

func (s schema) paths(prefix string) []string {
	if prefix == "spec.template" || prefix == "status.conditions" {
		return nil
	}
	if s.Items != nil {
		return s.Items.paths(prefix + "[]")
	}
	var all []string
	for name, property := range s.Properties {
		all = append(all, prefix+"."+name)
		all = append(all, property.paths(prefix+"."+name)...)
	}
	return all
}

func managerFlags() []string {
	var o manager.Options
	set := flag.NewFlagSet("", flag.ContinueOnError)
	o.Bind(set)
	var names []string
	set.VisitAll(func(f *flag.Flag) { names = append(names, "--"+f.Name) })
	return names
}

func agentFlags(t *testing.T) []string {
	var names []string
	for _, m := range regexp.MustCompile(`f\.\w+Var\(&[\w.]+, "([a-z-]+)"`).FindAllStringSubmatch(read(t, "internal/agent/flags.go"), -1) {
		names = append(names, "--"+m[1])
	}
	return names
}

func metricNames(t *testing.T) []string {
	files, err := fs.Glob(tree(), "controllers/*/metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		for _, m := range regexp.MustCompile(`Name:\s+"(\w+)"`).FindAllStringSubmatch(read(t, file), -1) {
			names = append(names, m[1])
		}
	}
	return names
}

func fencingErrors(t *testing.T) []string {
	var names []string
	for _, file := range []string{"errors.go", "claim.go", "source.go"} {
		for name := range declared(t, "fencing/"+file, token.VAR) {
			if strings.HasPrefix(name, "Err") {
				names = append(names, "fencing."+name)
			}
		}
	}
	return names
}

// exitStatuses are the constants of internal/agent/exit.go.
var exitStatuses = map[string]int{
	"ExitUsage": agent.ExitUsage, "ExitNoAPI": agent.ExitNoAPI, "ExitInternal": agent.ExitInternal, "ExitLost": agent.ExitLost,
	"ExitNotExecutable": agent.ExitNotExecutable, "ExitNotFound": agent.ExitNotFound, "ExitSignal": agent.ExitSignal,
}

// undocumented are the exit statuses that have no row in a table.
func undocumented(text string, statuses map[string]int) []string {
	var lost []string
	for name, status := range statuses {
		row := fmt.Sprintf("\n| %d |", status)
		if name == "ExitSignal" {
			row = fmt.Sprintf("\n| %d + n |", status)
		}
		if !strings.Contains(text, row) {
			lost = append(lost, name)
		}
	}
	return lost
}

func TestExitStatuses(t *testing.T) {
	for name := range declared(t, "internal/agent/exit.go", token.CONST) {
		if _, ok := exitStatuses[name]; !ok {
			t.Errorf("exitStatuses lacks %s", name)
		}
	}
	text := read(t, "docs/who-renews.md")
	if lost := undocumented(text, exitStatuses); len(lost) > 0 {
		t.Errorf("docs/who-renews.md has no row for %v", lost)
	}
	for name := range exitStatuses {
		other := map[string]int{name: 99}
		if len(undocumented(text, other)) != 1 {
			t.Errorf("a changed %s is not caught", name)
		}
	}
}
