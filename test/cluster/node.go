// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import "context"

// node is one machine of the cluster: namespaces of its own on this one.
type node struct {
	Name    string `json:"name"`
	IP      string `json:"ip"`
	PodCIDR string `json:"podCIDR"`
}

type CutMode string

func (c *Cluster) endContained(context.Context) error { return nil }
