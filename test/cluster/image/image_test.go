// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func program(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return file
}

func entries(t *testing.T, archive []byte) (map[string][]byte, map[string]*tar.Header) {
	t.Helper()
	contents, headers := map[string][]byte{}, map[string]*tar.Header{}
	reader := tar.NewReader(bytes.NewReader(archive))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return contents, headers
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		contents[header.Name], headers[header.Name] = data, header
	}
}

func decode(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
}

func blobName(digest string) string { return "blobs/" + strings.Replace(digest, ":", "/", 1) }

func TestWrite(t *testing.T) {
	spec := Spec{
		Ref: "leasehold.dev/x:dev", User: "65532", Entrypoint: []string{"/opt/bin/x"}, Env: []string{"A=b"},
		Files: []File{
			{Source: program(t, "x", "binary", 0o700), Path: "/opt/bin/x"},
			{Source: program(t, "y", "text", 0o600), Path: "opt/y"},
		},
	}
	var archive bytes.Buffer
	if err := Write(&archive, spec); err != nil {
		t.Fatal(err)
	}
	contents, _ := entries(t, archive.Bytes())
	var index, image manifest
	decode(t, contents["index.json"], &index)
	if got := index.Manifests[0].Annotations["io.containerd.image.name"]; got != spec.Ref {
		t.Errorf("name: got %q", got)
	}
	decode(t, contents[blobName(index.Manifests[0].Digest)], &image)
	var cfg config
	decode(t, contents[blobName(image.Config.Digest)], &cfg)
	if cfg.Config.User != "65532" || cfg.Config.Env[0] != "A=b" || cfg.Config.Entrypoint[0] != "/opt/bin/x" || cfg.OS != "linux" {
		t.Errorf("config: got %+v", cfg)
	}
	if cfg.RootFS.DiffIDs[0] != image.Layers[0].Digest {
		t.Error("layer of config is not the layer of the manifest")
	}
	checkLayer(t, contents[blobName(image.Layers[0].Digest)])
}

func checkLayer(t *testing.T, layer []byte) {
	t.Helper()
	files, headers := entries(t, layer)
	if string(files["opt/bin/x"]) != "binary" || headers["opt/bin/x"].Mode != 0o755 || headers["opt/y"].Mode != 0o644 {
		t.Errorf("layer: got %v", headers)
	}
	if headers["opt/"] == nil || headers["opt/bin/"] == nil || headers["tmp/"].Mode != 0o1777 {
		t.Errorf("directories: got %v", headers)
	}
}

func TestWriteIsReproducible(t *testing.T) {
	file := program(t, "x", "binary", 0o755)
	other := program(t, "y", "other", 0o755)
	var first, second, changed bytes.Buffer
	spec := Spec{Ref: "a/b:c", Files: []File{{file, "/x"}, {other, "/y"}}}
	if err := Write(&first, spec); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, time.Now(), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	spec.Files[0], spec.Files[1] = spec.Files[1], spec.Files[0]
	if err := Write(&second, spec); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same files give another archive")
	}
	spec.User = "1"
	if err := Write(&changed, spec); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(first.Bytes(), changed.Bytes()) {
		t.Error("another user gives the same archive")
	}
}

func TestWriteRefuses(t *testing.T) {
	file := program(t, "x", "binary", 0o755)
	for name, spec := range map[string]Spec{
		"no tag":      {Ref: "a/b", Files: []File{{file, "/x"}}},
		"no registry": {Ref: "b:c", Files: []File{{file, "/x"}}},
		"no file":     {Ref: "a/b:c", Files: []File{{file + ".missing", "/x"}}},
		"no path":     {Ref: "a/b:c", Files: []File{{file, "/"}}},
		"a directory": {Ref: "a/b:c", Files: []File{{filepath.Dir(file), "/x"}}},
	} {
		if err := Write(io.Discard, spec); err == nil {
			t.Errorf("%s: want an error", name)
		}
		target := filepath.Join(t.TempDir(), "image.tar")
		if err := Save(target, spec); err == nil {
			t.Errorf("%s: want an error", name)
		}
		if _, err := os.Stat(target); err == nil {
			t.Errorf("%s: left part of an archive", name)
		}
	}
}
