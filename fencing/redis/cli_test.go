// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"leasehold.dev/internal/testenv/child"
)

// TestRedisCLI runs the example that has nothing but redis-cli.
func TestRedisCLI(t *testing.T) {
	t.Parallel()
	if _, err := child.Find("redis-cli", "redis-tools"); err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(server.Addr())
	must(t, err)
	c := client(t, server.Addr())
	g := guard(t, c, Options{})
	script, err := filepath.Abs("../../examples/redis-cli/fenced-set.sh")
	must(t, err)
	run := func(env string, value string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", script, g.resource, "value", value, "-h", host, "-p", port)
		cmd.Env = append(cmd.Environ(), "FENCING_ISSUER="+issuer, "FENCING_HOLDER=web-0")
		cmd.Env = append(cmd.Env, strings.Fields(env)...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, step := range []struct{ name, env, value, want, stored string }{
		{"the first holder", "FENCING_TOKEN=34", "v34", "is: v34", "v34"},
		{"again, without a raise", "FENCING_TOKEN=34 FENCING_RAISED=1", "v 34", "was: v34", "v 34"},
		{"not raised", "FENCING_TOKEN=35 FENCING_RAISED=1", "no", "!NOTRAISED token=34", "v 34"},
		{"the next holder", "FENCING_TOKEN=100 FENCING_HOLDER=web-1", "v100", "is: v100", "v100"},
		{"the first holder, stale", "FENCING_TOKEN=34 FENCING_RAISED=1", "stale", "!FENCED token=100 issuer=" + issuer + " holder=web-1", "v100"},
		{"and with a raise", "FENCING_TOKEN=34", "stale", "!FENCED token=100", "v100"},
		{"token of another spelling", "FENCING_TOKEN=0100 FENCING_HOLDER=web-1", "no", "!INVALID", "v100"},
		{"token too great", "FENCING_TOKEN=4611686018427387905", "no", "!INVALID", "v100"},
		{"another issuer", "FENCING_TOKEN=101 FENCING_ISSUER=c2", "no", "!FOREIGN", "v100"},
		{"no token", "FENCING_TOKEN=", "no", "!FENCING_TOKEN", "v100"},
		{"no issuer", "FENCING_TOKEN=101 FENCING_ISSUER=", "no", "!FENCING_ISSUER", "v100"},
	} {
		out, err := run(step.env, step.value)
		want, fails := strings.CutPrefix(step.want, "!")
		exit, _ := errors.AsType[*exec.ExitError](err)
		if fails != (exit != nil) || !strings.Contains(out, want) {
			t.Errorf("%s: error %v, output %q; want %q", step.name, err, out, step.want)
		}
		wantValue(t, c, g, step.stored)
	}
}
