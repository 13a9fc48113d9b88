// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"errors"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"leasehold.dev/internal/testenv/child"
)

// TestPSQL runs the example that has nothing but psql.
func TestPSQL(t *testing.T) {
	t.Parallel()
	if _, err := child.Find("psql", "postgresql-client"); err != nil {
		t.Fatal(err)
	}
	e := newEnv(t)
	_, err := e.pool.Exec(t.Context(), "CREATE TABLE setting (name text PRIMARY KEY, value text NOT NULL)")
	must(t, err)
	dsn, err := url.Parse(server.DSN())
	must(t, err)
	dsn.Path = "/" + e.name
	script, err := filepath.Abs("../../examples/psql/fenced-update.sh")
	must(t, err)
	run := func(env string, value string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", script, "orders", "size", value, "--dbname="+dsn.String())
		cmd.Env = append(cmd.Environ(), "FENCING_ISSUER="+issuer, "FENCING_HOLDER=web-0")
		cmd.Env = append(cmd.Env, strings.Fields(env)...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, step := range []struct{ name, env, value, want, stored string }{
		{"the first holder", "FENCING_TOKEN=34", "v34", "is: v34", "v34"},
		{"again, without a raise", "FENCING_TOKEN=34 FENCING_RAISED=1", "v 34", "was: v34", "v 34"},
		{"a value that would be SQL", "FENCING_TOKEN=34", "'; DROP TABLE setting; --", "was: v 34", "'; DROP TABLE setting; --"},
		{"not raised", "FENCING_TOKEN=35 FENCING_RAISED=1", "no", `!"token" : 34`, "'; DROP TABLE setting; --"},
		{"the next holder", "FENCING_TOKEN=100 FENCING_HOLDER=web-1", "v100", "is: v100", "v100"},
		{"the first holder, stale", "FENCING_TOKEN=34 FENCING_RAISED=1", "stale", `!"token" : 100, "holder" : "web-1"`, "v100"},
		{"and with a raise", "FENCING_TOKEN=34", "stale", "!LH001", "v100"},
		{"another holder with the token", "FENCING_TOKEN=100 FENCING_RAISED=1", "no", "!LH001", "v100"},
		{"token too great", "FENCING_TOKEN=4611686018427387905", "no", "!between 1 and 2^62", "v100"},
		{"token that is no number", "FENCING_TOKEN=1e3", "no", "!invalid input syntax", "v100"},
		{"another issuer", "FENCING_TOKEN=101 FENCING_ISSUER=c2", "no", "!LH001", "v100"},
		{"no token", "FENCING_TOKEN=", "no", "!FENCING_TOKEN", "v100"},
		{"no issuer", "FENCING_TOKEN=101 FENCING_ISSUER=", "no", "!FENCING_ISSUER", "v100"},
		{"no holder", "FENCING_TOKEN=101 FENCING_HOLDER=", "no", "!FENCING_HOLDER", "v100"},
		// The control: the same stale holder with the check left out.
		{"naive: the first holder, stale, unchecked", "FENCING_TOKEN=34 FENCING_CHECK=off", "stale", "is: stale", "stale"},
	} {
		out, err := run(step.env, step.value)
		want, fails := strings.CutPrefix(step.want, "!")
		exit, _ := errors.AsType[*exec.ExitError](err)
		if fails != (exit != nil) || !strings.Contains(out, want) {
			t.Errorf("%s: error %v, output %q; want %q", step.name, err, out, step.want)
		}
		var stored string
		must(t, e.pool.QueryRow(t.Context(), "SELECT value FROM setting").Scan(&stored))
		if stored != step.stored {
			t.Errorf("%s: the table has %q, want %q", step.name, stored, step.stored)
		}
	}
}
