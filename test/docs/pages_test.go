// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs_test holds the documentation to what the code does: links lead
// somewhere, examples are accepted by a real API server, snippets compile, and
// whatever a user can meet (fields, annotations, reasons, events, exit
// statuses, flags, metrics) is on its page. Each check is shown to fail on
// something bad.
package docs_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"leasehold.dev/test/api/apiserver"
)

// page is a Markdown file, named relative to the root of the repository.
type page struct{ name, text string }

// block is a fenced block of a page.
type block struct{ page, text string }

func tree() fs.FS { return os.DirFS(apiserver.Root()) }

// pages are all Markdown files.
func pages(t *testing.T) []page {
	t.Helper()
	var all []page
	err := fs.WalkDir(tree(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name != "." && strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin"):
			return fs.SkipDir
		case path.Ext(name) == ".md":
			all = append(all, page{name, read(t, name)})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 15 {
		t.Fatalf("only %d pages were found", len(all))
	}
	return all
}

func read(t *testing.T, name string) string {
	t.Helper()
	raw, err := fs.ReadFile(tree(), name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

var (
	fenced = regexp.MustCompile("(?ms)^ *```([a-z]*)\n(.*?)^ *```$")
	span   = regexp.MustCompile("`[^`]+`")
)

// blocks are the fenced blocks of a language.
func blocks(p page, language string) []block {
	var all []block
	for _, m := range fenced.FindAllStringSubmatch(p.text, -1) {
		if m[1] == language {
			all = append(all, block{p.name, m[2]})
		}
	}
	return all
}

// prose is the text without fenced blocks.
func prose(text string) string { return fenced.ReplaceAllString(text, "") }
