// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	corev1 "k8s.io/api/core/v1"

	"leasehold.dev/api/v1alpha1"
)

// base is two warm pods with agents, two controllers, and the network.
func base(name string) Config {
	return Config{
		Name: name, Policy: v1alpha1.OverlapFence, RenewedBy: v1alpha1.RenewedByAgent,
		Duration: 3, Restart: corev1.RestartPolicyNever, Restarts: 3,
	}
}

func with(c Config, edit func(*Config)) Config {
	edit(&c)
	return c
}

// configurations are those that are searched, each exhaustively.
func configurations() []Config {
	forbid := func(c *Config) { c.Policy = v1alpha1.OverlapForbid }
	onFailure := func(c *Config) { c.Restart = corev1.RestartPolicyOnFailure }
	return []Config{
		with(base("network"), func(c *Config) { c.Duration = 4 }),
		with(base("foreign"), func(c *Config) { c.Budget.Foreign = 3 }),
		with(base("foreign, Forbid"), func(c *Config) {
			forbid(c)
			c.Death, c.Budget.Foreign, c.Budget.Crashes = true, 3, 1
		}),
		with(base("durations"), func(c *Config) { c.Duration, c.Other, c.Budget.Edits, c.Budget.Foreign = 2, 4, 3, 1 }),
		with(base("restart"), func(c *Config) {
			onFailure(c)
			c.Duration, c.Death, c.Budget.Crashes, c.Budget.Execs = 2, true, 1, 1
		}),
		with(base("restart, Forbid"), func(c *Config) {
			forbid(c)
			onFailure(c)
			c.Duration, c.Death, c.Budget.Crashes = 2, true, 3
		}),
		with(base("second container"), func(c *Config) {
			c.SecondContainer, c.Budget.Execs = true, 1
		}),
		with(base("sidecar, Forbid"), func(c *Config) {
			forbid(c)
			c.RenewedBy, c.Budget.Crashes, c.Budget.Foreign = v1alpha1.RenewedBySidecar, 3, 1
		}),
		with(base("completion"), func(c *Config) {
			onFailure(c)
			c.Duration, c.ToCompletion, c.Death, c.Restarts, c.Budget.Crashes = 2, true, true, 1, 1
		}),
		with(base("completion, foreign"), func(c *Config) {
			c.Duration, c.ToCompletion, c.Death, c.Budget.Crashes, c.Budget.Foreign = 2, true, true, 1, 2
		}),
		with(base("kubelet, Forbid"), func(c *Config) {
			forbid(c)
			c.RenewedBy, c.ToCompletion, c.Death, c.Gated = v1alpha1.RenewedByKubelet, true, true, true
			c.Budget.Crashes, c.Budget.Foreign = 1, 2
		}),
		with(base("kubelet, Forbid, pods go"), func(c *Config) {
			forbid(c)
			c.RenewedBy, c.Death, c.Gated = v1alpha1.RenewedByKubelet, true, true
			c.Budget.PodDeletions, c.Budget.Grants = 2, 3
		}),
		with(base("deletion"), func(c *Config) { c.Duration, c.ToCompletion, c.Budget.Deletions, c.Budget.Grants = 2, true, 1, 3 }),
		with(base("deletion, Forbid"), func(c *Config) {
			forbid(c)
			c.Duration, c.Instant, c.Death, c.Budget.Deletions, c.Budget.Crashes, c.Budget.Grants = 2, true, true, 1, 1, 3
		}),
		with(base("deletion, cold pods"), func(c *Config) {
			c.Duration, c.Gated, c.Instant, c.CarryFromPods, c.Budget.Deletions, c.Budget.Grants = 2, true, true, true, 1, 2
		}),
		with(base("raised token"), func(c *Config) {
			c.Duration, c.Instant, c.MinToken, c.Budget.Deletions, c.Budget.Grants = 2, true, true, 1, 3
		}),
		with(base("stamps"), func(c *Config) { c.Duration, c.Gated, c.Instant, c.Budget.Grants = 2, true, true, 2 }),
	}
}
