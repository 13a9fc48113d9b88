// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"
)

var (
	link    = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	notSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// brokenLinks are the relative links of a page that lead nowhere.
func brokenLinks(files fs.FS, p page) []string {
	var broken []string
	for _, m := range link.FindAllStringSubmatch(span.ReplaceAllString(prose(p.text), "code"), -1) {
		target, anchor, _ := strings.Cut(m[1], "#")
		if strings.Contains(target, "://") {
			continue
		}
		name := p.name
		if target != "" {
			name = path.Join(path.Dir(p.name), target)
		}
		raw, err := fs.ReadFile(files, name)
		if err != nil || (anchor != "" && !slices.Contains(anchors(string(raw)), anchor)) {
			broken = append(broken, m[1])
		}
	}
	return broken
}

// anchors are the names by which headings can be linked to.
func anchors(text string) []string {
	var all []string
	for _, m := range heading.FindAllStringSubmatch(prose(text), -1) {
		all = append(all, strings.ReplaceAll(notSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}

func TestLinks(t *testing.T) {
	checked := 0
	for _, p := range pages(t) {
		checked += len(link.FindAllString(p.text, -1))
		for _, l := range brokenLinks(tree(), p) {
			t.Errorf("%s: link %s leads nowhere", p.name, l)
		}
	}
	if checked < 30 {
		t.Errorf("only %d links were found", checked)
	}
}

func TestBrokenLinksAreCaught(t *testing.T) {
	files := fstest.MapFS{
		"docs/a.md":     {Data: []byte("# A head, and `more`\n")},
		"docs/i/ok.svg": {Data: []byte("<svg/>")},
	}
	text := "[x](a.md) [x](a.md#a-head-and-more) ![two\nlines](i/ok.svg) [x](https://x.example/y) `[x](code.md)`\n" +
		"[x](gone.md) [x](a.md#gone) ![x](i/gone.svg) [x](#gone)\n```\n[x](fenced.md)\n```\n"
	files["docs/b.md"] = &fstest.MapFile{Data: []byte(text)}
	want := []string{"gone.md", "a.md#gone", "i/gone.svg", "#gone"}
	if got := brokenLinks(files, page{"docs/b.md", text}); !slices.Equal(got, want) {
		t.Errorf("broken links are %q, want %q", got, want)
	}
}

// longLines are lines that are too long, except rows of tables, which cannot
// be broken.
func longLines(text string) []string {
	var long []string
	for line := range strings.Lines(text) {
		if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > 120 && !strings.HasPrefix(line, "|") {
			long = append(long, line)
		}
	}
	return long
}

func TestLineLengths(t *testing.T) {
	for _, p := range pages(t) {
		if strings.HasPrefix(p.name, "test/") {
			continue
		}
		for _, line := range longLines(p.text) {
			t.Errorf("%s: a line of more than 120 characters: %s", p.name, line)
		}
	}
	if bad := strings.Repeat("é", 121); len(longLines("ok\n"+bad+"\n| "+bad+" |\n"+bad[2:])) != 1 {
		t.Error("a line of 121 characters is not caught, or others are")
	}
}

// checkImage reports what keeps an image from being read, by eyes or aloud.
func checkImage(text string) error {
	seen := map[string]bool{}
	decoder := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if element, ok := token.(xml.StartElement); ok {
			seen[element.Name.Local] = true
		}
	}
	for _, name := range []string{"svg", "title", "desc", "rect"} {
		if !seen[name] {
			return fmt.Errorf("no element %q", name)
		}
	}
	// It has a background of its own for either scheme, so that text is legible.
	if strings.Count(text, ".paper { fill:") != 2 || !strings.Contains(text, "prefers-color-scheme: dark") {
		return fmt.Errorf("no background for light and dark")
	}
	return nil
}

func TestImages(t *testing.T) {
	names, err := fs.Glob(tree(), "docs/images/*")
	if err != nil || len(names) == 0 {
		t.Fatalf("no images: %v", err)
	}
	for _, name := range names {
		text := read(t, name)
		if err := checkImage(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, bad := range []string{"</svg>", "<title", "</style>", "prefers-color-scheme: dark"} {
			if checkImage(strings.Replace(text, bad, "", 1)) == nil {
				t.Errorf("%s without %q is not caught", name, bad)
			}
		}
	}
}
