// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// bound is one keyword for one field of the pod template.
type bound struct {
	path  []string
	key   string
	value *yaml.Node
}

// bounds are no tighter than what the API server accepts in a pod, except for
// the number of containers and of their volume mounts, and the length of a mount's
// path, where it knows none.
var bounds = []bound{
	{nil, "required", words("spec")},
	{path("spec", "containers"), "minItems", number(1)},
	{path("spec", "containers"), "maxItems", number(64)},
	{append(path("spec", "containers"), "items", "properties", "name"), "maxLength", number(63)},
	{append(path("spec", "containers"), "items"), "required", words("image", "name")},
	{append(path("spec", "containers"), "items", "properties", "image"), "minLength", number(1)},
	{append(path("spec", "containers"), mounts...), "maxItems", number(128)},
	{append(append(path("spec", "containers"), mounts...), "items", "properties", "mountPath"), "maxLength", number(2048)},
	{path("spec", "activeDeadlineSeconds"), "minimum", number(1)},
	{path("spec", "activeDeadlineSeconds"), "maximum", number(math.MaxInt32)},
	{append(path("spec", "initContainers"), "items"), "required", words("image", "name")},
	{append(path("spec", "initContainers"), "items", "properties", "image"), "minLength", number(1)},
	{path("spec", "restartPolicy"), "enum", words("Always", "OnFailure", "Never")},
}

// mounts leads from the schema of containers to that of their volumeMounts.
var mounts = []string{"items", "properties", "volumeMounts"}

// path leads from a schema to the schema of a field below it.
func path(fields ...string) []string {
	var p []string
	for _, f := range fields {
		p = append(p, "properties", f)
	}
	return p
}

func number(n int) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.Itoa(n)}
}

func words(values ...string) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for _, v := range values {
		list.Content = append(list.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v})
	}
	return list
}

// find follows keys of nested mappings; nil where there is no such key.
func find(node *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		i := index(node, key)
		if i < 0 {
			return nil
		}
		node = node.Content[i+1]
	}
	return node
}

func index(node *yaml.Node, key string) int {
	if node == nil || node.Kind != yaml.MappingNode {
		return -1
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// set keeps the keys of a mapping in order, as controller-gen does.
func set(node *yaml.Node, key string, value *yaml.Node) {
	if i := index(node, key); i >= 0 {
		node.Content[i+1] = value
		return
	}
	at := 0
	for at < len(node.Content) && node.Content[at].Value < key {
		at += 2
	}
	node.Content = slices.Insert(node.Content, at,
		&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value)
}

// stripDescriptions removes the descriptions of all schemas below node. A field
// that is itself called description has a mapping there, and stays.
func stripDescriptions(node *yaml.Node) {
	if node == nil {
		return
	}
	if i := index(node, "description"); i >= 0 && node.Content[i+1].Kind == yaml.ScalarNode {
		node.Content = slices.Delete(node.Content, i, i+2)
	}
	for _, child := range node.Content {
		stripDescriptions(child)
	}
}
