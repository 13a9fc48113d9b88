// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package agent

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/internal/agent/work"
	"leasehold.dev/internal/holder/core"
)

// command is the worker that runs the user's command as a process.
type command struct {
	runner    *work.Runner
	path      string
	argv      []string
	namespace string
	lease     string
}

func (c *command) start(claim core.Claim, report func(core.Event)) {
	c.runner.Start(c.path, c.argv, c.env(os.Environ(), claim), work.Report{
		Started: func(err error, code int) { report(core.Started{Err: err, Code: code}) },
		Ended:   func(code int) { report(core.Ended{Code: code}) },
		Gone:    func() { report(core.Gone{}) },
	})
}

func (c *command) signal(n syscall.Signal) { c.runner.Signal(n) }

func (c *command) kill() { c.runner.Kill() }

// env replaces what the work was inherited about an earlier term. A second
// entry beside the old one would leave to the program which of them counts.
func (c *command) env(inherited []string, claim core.Claim) []string {
	values := [][2]string{
		{v1alpha1.EnvToken, strconv.FormatInt(claim.Token, 10)},
		{v1alpha1.EnvHolder, claim.Holder},
		{v1alpha1.EnvIssuer, claim.Issuer},
		{v1alpha1.EnvLeaseName, c.lease},
		{v1alpha1.EnvLeaseNamespace, c.namespace},
	}
	var env []string
	for _, entry := range inherited {
		key, _, _ := strings.Cut(entry, "=")
		if !ours(key) {
			env = append(env, entry)
		}
	}
	for _, v := range values {
		env = append(env, v[0]+"="+v[1])
	}
	return env
}

func ours(key string) bool {
	switch key {
	case v1alpha1.EnvToken, v1alpha1.EnvHolder, v1alpha1.EnvIssuer, v1alpha1.EnvLeaseName, v1alpha1.EnvLeaseNamespace:
		return true
	}
	return false
}
