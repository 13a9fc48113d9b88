// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	makeCall   = regexp.MustCompile(`(?:^|\s)make ((?:[a-z][a-z0-9-]*\s*)+)`)
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
)

// targetsCalled are the make targets that a page's code calls.
func targetsCalled(text string) []string {
	var code []string
	for _, m := range fenced.FindAllStringSubmatch(text, -1) {
		if m[1] == "sh" || m[1] == "console" {
			code = append(code, strings.Split(m[2], "\n")...)
		}
	}
	for _, s := range span.FindAllString(prose(text), -1) {
		code = append(code, strings.Trim(s, "`"))
	}
	var targets []string
	for _, line := range code {
		for _, m := range makeCall.FindAllStringSubmatch(line, -1) {
			targets = append(targets, strings.Fields(m[1])...)
		}
	}
	return targets
}

func TestMakeTargets(t *testing.T) {
	files, err := fs.Glob(tree(), "make/*.mk")
	if err != nil {
		t.Fatal(err)
	}
	var exist []string
	for _, file := range append(files, "Makefile") {
		for _, m := range makeTarget.FindAllStringSubmatch(read(t, file), -1) {
			exist = append(exist, m[1])
		}
	}
	for _, p := range pages(t) {
		for _, target := range targetsCalled(p.text) {
			if !slices.Contains(exist, target) {
				t.Errorf("%s: there is no target %q", p.name, target)
			}
		}
	}
	if got := targetsCalled(read(t, "README.md")); !slices.Contains(got, "demo") || !slices.Contains(got, "test") {
		t.Errorf("README.md calls %q, want demo and test among them", got)
	}
}

func TestTargetsAreFound(t *testing.T) {
	text := "make believe `X=1 make one two-b` `remake no`\n```sh\n$ make three   # make-up\n```\n```go\nmake four\n```\n"
	if got, want := targetsCalled(text), []string{"three", "one", "two-b"}; !slices.Equal(got, want) {
		t.Errorf("targets are %q, want %q", got, want)
	}
}

// uncompiled are the blocks of Go that stand, but for indentation, in none of
// the compiled files.
func uncompiled(text string, compiled ...string) []string {
	var all []string
	for _, b := range blocks(page{text: text}, "go") {
		if !slices.ContainsFunc(compiled, func(file string) bool { return strings.Contains(flat(file), flat(b.text)) }) {
			all = append(all, b.text)
		}
	}
	return all
}

// flat is code without indentation.
func flat(code string) string {
	var lines []string
	for line := range strings.Lines(code) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// exampleFiles are those whose code the pages may show.
var exampleFiles = []string{
	"test/docs/example_test.go",
	"fencing/etcd/example_test.go",
	"fencing/httpfence/example_test.go",
	"fencing/mysql/example_test.go",
	"fencing/sqlite/example_test.go",
	"leaderelect/elector_example_test.go",
	"leaderelect/resourcelock/example_test.go",
}

func TestSnippetsCompile(t *testing.T) {
	var examples []string
	for _, file := range exampleFiles {
		examples = append(examples, read(t, file))
	}
	found := 0
	for _, p := range pages(t) {
		found += len(blocks(p, "go"))
		for _, code := range uncompiled(p.text, examples...) {
			t.Errorf("%s: none of %s has\n%s", p.name, strings.Join(exampleFiles, ", "), code)
		}
	}
	if found < 2 {
		t.Errorf("only %d blocks of Go were found", found)
	}
	if len(uncompiled("```go\nguard.Lift(ctx)\n```\n", examples...)) != 1 {
		t.Error("a snippet that is compiled nowhere is not caught")
	}
}
