// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Command crdgen finishes the CustomResourceDefinitions that controller-gen
// writes. Below the pod templates in them it
//
//   - removes descriptions: "kubectl explain pod.spec" has them, and with them a
//     client-side "kubectl apply" fails, since it stores the whole object in one
//     annotation of at most 256 KiB;
//   - adds bounds, without which the API server cannot estimate what the
//     validation rules cost, and refuses the definition.
//
// Usage: crdgen DIRECTORY rewrites each definition in it.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: crdgen DIRECTORY")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "crdgen:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no definitions in %s: run controller-gen first", dir)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		finished, err := finish(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := os.WriteFile(file, finished, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// finish returns one definition with short and bounded pod templates. Doing it
// twice changes nothing more.
func finish(raw []byte) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) != 1 {
		return nil, errors.New("want one object")
	}
	versions := find(doc.Content[0], "spec", "versions")
	if versions == nil {
		return nil, errors.New("want a CustomResourceDefinition")
	}
	for _, version := range versions.Content {
		template := find(version, "schema", "openAPIV3Schema", "properties", "spec", "properties", "template")
		if template == nil {
			continue
		}
		if err := finishTemplate(template); err != nil {
			return nil, err
		}
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	enc.CompactSeqIndent()
	if err := enc.Encode(&doc); err != nil {
		return nil, err
	}
	return out.Bytes(), enc.Close()
}

func finishTemplate(template *yaml.Node) error {
	// The template's own description is ours.
	stripDescriptions(find(template, "properties"))
	for _, b := range bounds {
		node := find(template, b.path...)
		if node == nil {
			return fmt.Errorf("the pod template has no %v: correct the bounds in hack/crdgen", b.path)
		}
		set(node, b.key, b.value)
	}
	return nil
}
