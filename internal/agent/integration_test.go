// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package agent_test

import (
	"strconv"
	"testing"

	"leasehold.dev/api/v1alpha1"
)

func TestWorkRunsUnderAGrantAndReleasesItsOutcome(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.create(short())
	token := c.grant("a")
	o := agentOptions{kubeconfig: c.kubeconfig(""), namespace: c.namespace, pod: "a", message: messageFile(t)}
	a := startAgent(t, o, "exit", "5")
	if code := a.exit(); code != 5 {
		t.Errorf("exit status %d, want the work's 5", code)
	}
	r := c.record()
	if r.Released != token || r.Outcome != v1alpha1.OutcomeFailed {
		t.Errorf("released %d as %q, want %s as Failed", r.Released, r.Outcome, strconv.FormatInt(token, 10))
	}
}
