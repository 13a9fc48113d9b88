// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package image makes container images out of static programs, without a container
// engine: an archive in the OCI image layout that every runtime can import.
//
// The same files give the same archive, byte for byte.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// File is one file of the image.
type File struct {
	// Source is the file on this machine.
	Source string
	// Path is where the image has it.
	Path string
}

// Spec says what the image is called, holds and runs.
type Spec struct {
	// Ref is the full name, such as leasehold.dev/manager:dev.
	Ref        string
	Files      []File
	Entrypoint []string
	Cmd        []string
	Env        []string
	User       string
	WorkingDir string
	Labels     map[string]string
	// Architecture defaults to this machine's.
	Architecture string
}

const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        *descriptor  `json:"config,omitempty"`
	Layers        []descriptor `json:"layers,omitempty"`
	Manifests     []descriptor `json:"manifests,omitempty"`
}

type config struct {
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Config       runConfig `json:"config"`
	RootFS       rootFS    `json:"rootfs"`
}

type runConfig struct {
	User       string            `json:"User,omitempty"`
	Env        []string          `json:"Env,omitempty"`
	Entrypoint []string          `json:"Entrypoint,omitempty"`
	Cmd        []string          `json:"Cmd,omitempty"`
	WorkingDir string            `json:"WorkingDir,omitempty"`
	Labels     map[string]string `json:"Labels,omitempty"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// Save writes the image's archive to a file, and only a whole one.
func Save(file string, spec Spec) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("directory of image: %w", err)
	}
	out, err := os.CreateTemp(filepath.Dir(file), ".image-")
	if err != nil {
		return fmt.Errorf("image file: %w", err)
	}
	defer func() { _ = os.Remove(out.Name()) }()
	if err := Write(out, spec); err != nil {
		_ = out.Close()
		return err
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("image file: %w", err)
	}
	if err := os.Rename(out.Name(), file); err != nil {
		return fmt.Errorf("image file: %w", err)
	}
	return nil
}

// Write writes the image's archive.
func Write(w io.Writer, spec Spec) error {
	if !strings.Contains(spec.Ref, "/") || !strings.Contains(filepath.Base(spec.Ref), ":") {
		return fmt.Errorf("image name %q: give registry, repository and tag, as in leasehold.dev/agent:dev", spec.Ref)
	}
	layer, err := layerOf(spec.Files)
	if err != nil {
		return err
	}
	out := &layout{tar: tar.NewWriter(w)}
	layerAt := out.blob(layerType, layer)
	configAt := out.json(configType, configOf(spec, layerAt.Digest))
	imageAt := out.json(manifestType, manifest{
		SchemaVersion: 2, MediaType: manifestType, Config: &configAt, Layers: []descriptor{layerAt},
	})
	imageAt.Annotations = map[string]string{
		"io.containerd.image.name":          spec.Ref,
		"org.opencontainers.image.ref.name": spec.Ref[strings.LastIndexByte(spec.Ref, ':')+1:],
	}
	out.document("index.json", manifest{SchemaVersion: 2, MediaType: indexType, Manifests: []descriptor{imageAt}})
	out.document("oci-layout", map[string]string{"imageLayoutVersion": "1.0.0"})
	return out.close()
}

func configOf(spec Spec, layer string) config {
	architecture := spec.Architecture
	if architecture == "" {
		architecture = runtime.GOARCH
	}
	env := spec.Env
	if len(env) == 0 {
		env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	}
	return config{
		Architecture: architecture, OS: "linux",
		Config: runConfig{
			User: spec.User, Env: env, Entrypoint: spec.Entrypoint, Cmd: spec.Cmd,
			WorkingDir: spec.WorkingDir, Labels: spec.Labels,
		},
		RootFS: rootFS{Type: "layers", DiffIDs: []string{layer}},
	}
}

// layout writes the files of an image layout; its first error sticks.
type layout struct {
	tar *tar.Writer
	err error
}

func (l *layout) blob(mediaType string, data []byte) descriptor {
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	l.file("blobs/sha256/"+digest, data)
	return descriptor{MediaType: mediaType, Digest: "sha256:" + digest, Size: int64(len(data))}
}

func (l *layout) json(mediaType string, value any) descriptor {
	return l.blob(mediaType, l.marshal(value))
}

func (l *layout) document(name string, value any) { l.file(name, l.marshal(value)) }

func (l *layout) marshal(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("image: %w", err)
	}
	return data
}

func (l *layout) file(name string, data []byte) {
	if l.err == nil {
		l.err = writeEntry(l.tar, &tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg}, bytes.NewReader(data))
	}
}

func (l *layout) close() error {
	if l.err != nil {
		return l.err
	}
	if err := l.tar.Close(); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	return nil
}
