// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package components

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
)

// Together returns one directory that holds all the named programs, for callers
// that look programs up in a directory.
func (s *Store) Together(ctx context.Context, names ...string) (string, error) {
	paths, err := s.Build(ctx, names...)
	if err != nil {
		return "", err
	}
	sort.Strings(names)
	var sources []string
	for _, name := range names {
		sources = append(sources, paths[name])
	}
	dir := filepath.Join(s.Cache, "together-"+identity(sources...))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("directory of programs: %w", err)
	}
	for _, source := range sources {
		if err := place(source, filepath.Join(dir, filepath.Base(source))); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// place links a program, or copies it where links cannot be had.
func place(source, target string) error {
	if _, err := os.Stat(target); err == nil {
		return nil
	}
	if err := os.Link(source, target); err == nil || os.IsExist(err) {
		return nil
	}
	return copyFile(source, target)
}

// copyFile writes under a temporary name first, so that nobody runs half a program.
func copyFile(source, target string) error {
	in, err := os.Open(source)
	if err != nil {
		return fmt.Errorf("program to copy: %w", err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.CreateTemp(filepath.Dir(target), ".copy-")
	if err != nil {
		return fmt.Errorf("copy of program: %w", err)
	}
	defer func() { _ = os.Remove(out.Name()) }()
	if _, err := io.Copy(out, in); err != nil {
		return fmt.Errorf("copy of program: %w", err)
	}
	if err := out.Chmod(0o755); err != nil {
		return fmt.Errorf("copy of program: %w", err)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("copy of program: %w", err)
	}
	return os.Rename(out.Name(), target)
}
