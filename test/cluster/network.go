// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// The cluster's network is nobody else's: no namespace of it has a route to the
// host's, so the ranges need not differ from those of other clusters.
const (
	// APIServerIP is where nodes and pods find the API server. Cutting a node off
	// takes this address away from it.
	APIServerIP = "10.221.0.1"
	// ServicesIP is for servers outside of Kubernetes, such as a database. A node that
	// is cut off from the API server still reaches it, as it would in real life.
	ServicesIP = "10.221.0.2"

	podRange    = "10.221.64.0/18"
	apiPort     = 6443
	firstNodeIP = 11
	firstPodNet = 65
)

// node is one machine of the cluster: namespaces of its own on this one.
type node struct {
	Name    string `json:"name"`
	IP      string `json:"ip"`
	PodCIDR string `json:"podCIDR"`
}

func planNodes(count int) []node {
	var nodes []node
	for i := range count {
		nodes = append(nodes, node{
			Name:    "node-" + strconv.Itoa(i+1),
			IP:      fmt.Sprintf("10.221.0.%d", firstNodeIP+i),
			PodCIDR: fmt.Sprintf("10.221.%d.0/24", firstPodNet+i),
		})
	}
	return nodes
}

// port is the name of a node's end on the bridge.
func (n node) port() string { return n.Name }

// connect lays out the network: a bridge on the control machine, a cable to each
// node, and routes to the pods of each. Nothing leads outside.
func (c *Cluster) connect(ctx context.Context) error {
	holders := map[string]int{}
	for _, n := range c.view().Nodes {
		holders[n.Name] = c.process(holderOf(n.Name)).PID
	}
	if _, err := c.run(ctx, control, controlLinks(c.view().Nodes, holders), "ip", "-batch", "-"); err != nil {
		return fmt.Errorf("network of control plane: %w", err)
	}
	for _, n := range c.view().Nodes {
		if _, err := c.run(ctx, n.Name, nodeLinks(n, c.view().Nodes), "ip", "-batch", "-"); err != nil {
			return fmt.Errorf("network of %s: %w", n.Name, err)
		}
		if _, err := c.run(ctx, n.Name, "1", "tee", "/proc/sys/net/ipv4/ip_forward"); err != nil {
			return fmt.Errorf("network of %s: %w", n.Name, err)
		}
	}
	return nil
}

func controlLinks(nodes []node, holders map[string]int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "link set lo up\nlink add bridge type bridge\n")
	fmt.Fprintf(&b, "addr add %s/24 dev bridge\naddr add %s/24 dev bridge\nlink set bridge up\n", APIServerIP, ServicesIP)
	for _, n := range nodes {
		fmt.Fprintf(&b, "link add %s type veth peer name eth0 netns %d\n", n.port(), holders[n.Name])
		fmt.Fprintf(&b, "link set %s master bridge up\n", n.port())
		fmt.Fprintf(&b, "route add %s via %s\n", n.PodCIDR, n.IP)
	}
	return b.String()
}

// nodeLinks gives Services a route into nowhere: a packet to one must be routable
// for kube-proxy's rules to see it, and if no rule takes it, it must go nowhere: to
// a bridge without ports, which also the smallest of kernels has.
func nodeLinks(n node, all []node) string {
	var b strings.Builder
	fmt.Fprintf(&b, "link set lo up\naddr add %s/24 dev eth0\nlink set eth0 up\n", n.IP)
	fmt.Fprintf(&b, "link add services type bridge\nlink set services up arp off\n")
	fmt.Fprintf(&b, "route add %s dev services src %s\n", serviceRange, n.IP)
	for _, other := range all {
		if other.Name != n.Name {
			fmt.Fprintf(&b, "route add %s via %s\n", other.PodCIDR, other.IP)
		}
	}
	return b.String()
}
