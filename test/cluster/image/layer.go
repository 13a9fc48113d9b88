// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"sort"
	"strings"
)

// layerOf packs the files, with the directories that lead to them, without times and
// owners, which would make every archive another one.
func layerOf(files []File) ([]byte, error) {
	sorted := append([]File{}, files...)
	sort.Slice(sorted, func(i, j int) bool { return clean(sorted[i].Path) < clean(sorted[j].Path) })
	var buffer bytes.Buffer
	layer := &layerWriter{tar: tar.NewWriter(&buffer), made: map[string]bool{".": true}}
	// Programs expect a directory for temporary files.
	if err := layer.directory("tmp", 0o1777); err != nil {
		return nil, err
	}
	for _, file := range sorted {
		if err := layer.add(file); err != nil {
			return nil, err
		}
	}
	if err := layer.tar.Close(); err != nil {
		return nil, fmt.Errorf("image layer: %w", err)
	}
	return buffer.Bytes(), nil
}

type layerWriter struct {
	tar  *tar.Writer
	made map[string]bool
}

func (l *layerWriter) add(file File) error {
	name := clean(file.Path)
	if name == "" || name == "." {
		return fmt.Errorf("image file %s: give the path that the image should have it at", file.Source)
	}
	if err := l.directory(path.Dir(name), 0o755); err != nil {
		return err
	}
	source, err := os.Open(file.Source)
	if err != nil {
		return fmt.Errorf("image file: %w", err)
	}
	defer func() { _ = source.Close() }()
	info, err := source.Stat()
	if err != nil {
		return fmt.Errorf("image file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("image file %s is not a regular file: list files one by one", file.Source)
	}
	// Readable by any user, since the image may run as one that owns nothing.
	mode := int64(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	return writeEntry(l.tar, &tar.Header{Name: name, Mode: mode, Size: info.Size(), Typeflag: tar.TypeReg}, source)
}

func (l *layerWriter) directory(name string, mode int64) error {
	if l.made[name] {
		return nil
	}
	if err := l.directory(path.Dir(name), 0o755); err != nil {
		return err
	}
	l.made[name] = true
	return writeEntry(l.tar, &tar.Header{Name: name + "/", Mode: mode, Typeflag: tar.TypeDir}, strings.NewReader(""))
}

func clean(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

func writeEntry(w *tar.Writer, header *tar.Header, content io.Reader) error {
	header.Format = tar.FormatPAX
	if err := w.WriteHeader(header); err != nil {
		return fmt.Errorf("image entry %s: %w", header.Name, err)
	}
	if _, err := io.Copy(w, content); err != nil {
		return fmt.Errorf("image entry %s: %w", header.Name, err)
	}
	return nil
}
