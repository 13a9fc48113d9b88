// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strings"
)

// CutMode says what a node is cut off from.
type CutMode string

const (
	// CutAPI takes the API server away from a node and its pods, in both directions.
	// Other nodes and servers at ServicesIP stay in reach: the split that fencing is for.
	CutAPI CutMode = "the API server"
	// CutAll takes everything away from it.
	CutAll CutMode = "everything"
)

// rule is an iptables rule of one machine, without the word that adds or removes it.
type rule struct {
	machine, table, chain string
	match                 []string
}

// Packets are dropped and not refused, as by a cable that is pulled: nobody is told.
func (r rule) arguments(action string) []string {
	args := []string{"iptables", "--wait", "-t", r.table, action, r.chain}
	return append(append(args, r.match...), "-j", "DROP")
}

func cutRules(n node, mode CutMode) []rule {
	if mode == CutAll {
		return []rule{
			{n.Name, "raw", "PREROUTING", []string{"-i", "eth0"}},
			{n.Name, "mangle", "POSTROUTING", []string{"-o", "eth0"}},
		}
	}
	var rules []rule
	for _, from := range []string{n.IP + "/32", n.PodCIDR} {
		rules = append(rules,
			rule{control, "filter", "INPUT", []string{"-s", from, "-d", APIServerIP + "/32"}},
			rule{control, "filter", "OUTPUT", []string{"-s", APIServerIP + "/32", "-d", from}},
		)
	}
	return rules
}

// Cut cuts a node off. What is in flight is lost; connections stay open and silent.
func (c *Cluster) Cut(ctx context.Context, name string, mode CutMode) error {
	if err := c.ours(name); err != nil {
		return err
	}
	n, err := c.node(name)
	if err != nil {
		return err
	}
	// Remembered first, so that Heal knows what to look for whatever happens here.
	if err := c.locked(ctx, func(s *state) { s.Cuts[name] = mode }); err != nil {
		return err
	}
	for _, r := range cutRules(n, mode) {
		if c.hasRule(ctx, r) {
			continue
		}
		if _, err := c.run(ctx, r.machine, "", r.arguments("-I")...); err != nil {
			return fmt.Errorf("cut of %s: %w", name, err)
		}
	}
	return nil
}

// Heal joins a node again. On one that is not cut off it does nothing.
func (c *Cluster) Heal(ctx context.Context, name string) error {
	if err := c.ours(name); err != nil {
		return err
	}
	n, err := c.node(name)
	if err != nil {
		return err
	}
	for _, mode := range []CutMode{CutAPI, CutAll} {
		for _, r := range cutRules(n, mode) {
			if !c.hasRule(ctx, r) {
				continue
			}
			if _, err := c.run(ctx, r.machine, "", r.arguments("-D")...); err != nil {
				return fmt.Errorf("heal of %s: %w", name, err)
			}
		}
	}
	return c.locked(ctx, func(s *state) { delete(s.Cuts, name) })
}

// hasRule looks for the rule among those that are in force.
func (c *Cluster) hasRule(ctx context.Context, r rule) bool {
	out, err := c.run(ctx, r.machine, "", "iptables", "--wait", "-t", r.table, "-S", r.chain)
	want := strings.Join(append(append([]string{"-A", r.chain}, r.match...), "-j", "DROP"), " ")
	for line := range strings.Lines(out) {
		if strings.TrimSpace(line) == want {
			return err == nil
		}
	}
	return false
}
