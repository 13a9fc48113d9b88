// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold.dev/fencing"
)

func TestInstallAgain(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	must(t, e.guard.Raise(t.Context(), claim(33)))
	tasks := make([]*task, 4)
	for i := range tasks {
		tasks[i] = start(func() error { return Install(t.Context(), e.pool) })
	}
	for _, tk := range tasks {
		must(t, tk.wait(t))
	}
	e.wantMark(t, fencing.Mark(claim(33)))
	must(t, writers["Exec"](t, e.guard, claim(33), "33"))
}

func TestNotInstalled(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), server.DSN()) // the database postgres, where nothing is
	must(t, err)
	t.Cleanup(pool.Close)
	g := New(pool, "orders")
	_, readErr := g.Read(t.Context())
	_, execErr := g.Exec(t.Context(), claim(33), "DELETE FROM register")
	for verb, err := range map[string]error{
		"Arm": g.Arm(t.Context(), issuer), "Raise": g.Raise(t.Context(), claim(33)), "Read": readErr, "Exec": execErr,
	} {
		checkText(t, verb, err, "run postgres.Install")
	}
}

// TestHoldersRole: a role that may only use the schema can do a holder's work,
// and has no way to lower, delete or hand over a mark.
func TestHoldersRole(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := t.Context()
	role := "holder_" + e.name
	_, err := e.pool.Exec(ctx, "CREATE ROLE "+role+"; GRANT SELECT, UPDATE ON register TO "+role)
	must(t, err)
	pool := e.newPool(t, "role", role)
	g := New(pool, "orders")
	checkText(t, "Raise without USAGE", g.Raise(ctx, claim(33)), "holders need USAGE on the schema leasehold")
	_, err = e.pool.Exec(ctx, "GRANT USAGE ON SCHEMA leasehold TO "+role)
	must(t, err)

	must(t, g.Raise(ctx, claim(33)))
	for name, write := range writers {
		must(t, write(t, g, claim(33), name))
		wantClass(t, write(t, g, claim(32), name), fencing.ErrFenced)
	}
	if m, err := g.Read(ctx); err != nil || m != fencing.Mark(claim(33)) {
		t.Errorf("Read = %v, %v", m, err)
	}

	checkText(t, "Arm", New(pool, "new").Arm(ctx, issuer), "only its owner arms")
	checkText(t, "Adopt", g.Adopt(ctx, issuer, "other"), "only its owner arms")
	for _, sql := range []string{
		"UPDATE leasehold.mark SET token = 1",
		"DELETE FROM leasehold.mark",
		"TRUNCATE leasehold.mark",
		"INSERT INTO leasehold.mark VALUES ('x', 'y', 0, '')",
		"SELECT leasehold.refuse('orders')",
		"DROP FUNCTION leasehold.check_mark",
	} {
		if _, err := pool.Exec(ctx, sql); !isState(err, "42501") {
			t.Errorf("%s: error %v, want insufficient_privilege", sql, err)
		}
		// The owner can: the statements are good.
		tx := e.begin(t)
		if _, err := tx.Exec(ctx, sql); isState(err, "42501") {
			t.Errorf("%s by the owner: %v", sql, err)
		}
		must(t, tx.Rollback(ctx))
	}
	e.wantMark(t, fencing.Mark(claim(33)))
}

// TestRoleCannotRedirect: a holder's own objects with the names that the
// functions use are not what they use.
func TestRoleCannotRedirect(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	must(t, e.guard.Raise(t.Context(), claim(34)))
	_, err := e.pool.Exec(t.Context(), `CREATE SCHEMA evil;
		CREATE FUNCTION evil.yes(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
		CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.yes);
		CREATE FUNCTION evil.yes(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true';
		CREATE OPERATOR evil.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.yes)`)
	must(t, err)
	g := New(e.newPool(t, "search_path", "evil, pg_catalog, public"), "orders")
	wantClass(t, writers["Exec"](t, g, claim(33), "x"), fencing.ErrFenced)
	var fooled bool
	must(t, g.db.QueryRow(t.Context(), "SELECT 'a'::text = 'b'::text").Scan(&fooled))
	if !fooled {
		t.Error("the operator is not in the way, so this test shows nothing")
	}
}

// TestFunctionsRefuseNulls: clients in other languages may pass null for what
// they do not have. A null must not let anything through.
func TestFunctionsRefuseNulls(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	good := e.guard.claimArgs(claim(33))
	must(t, e.guard.Raise(t.Context(), claim(33)))
	for _, function := range []string{"check_mark", "raise_mark"} {
		for i := range good {
			args := append([]any{}, good...)
			args[i] = nil
			_, err := e.pool.Exec(t.Context(), "SELECT leasehold."+function+"($1, $2, $3, $4)", args...)
			want := stateRefused
			switch {
			case i == 0:
				want = stateNotArmed
			case i >= 2 && function == "raise_mark":
				want = "22023" // invalid_parameter_value
			}
			if !isState(err, want) {
				t.Errorf("%s with null for argument %d: error %v, want state %s", function, i+1, err, want)
			}
		}
	}
	// An armed or adopted mark has no holder; an empty one must not match it.
	e.setMark(t, fencing.Mark{Issuer: issuer, Token: 40})
	for _, function := range []string{"check_mark", "raise_mark"} {
		if _, err := e.pool.Exec(t.Context(), "SELECT leasehold."+function+"($1, $2, 40, '')", "orders", issuer); err == nil {
			t.Errorf("%s accepted an empty holder", function)
		}
	}
	for _, token := range []int64{-1, 0, fencing.MaxToken + 1} {
		_, err := e.pool.Exec(t.Context(), "SELECT leasehold.raise_mark($1, $2, $3, 'x')", "orders", issuer, token)
		if !isState(err, "22023") {
			t.Errorf("raise_mark to %d: %v", token, err)
		}
	}
}

// TestReadOnly: what a replica answers is an error without a class, for trying
// again would not help.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	must(t, e.guard.Raise(t.Context(), claim(33)))
	g := New(e.newPool(t, "default_transaction_read_only", "on"), "orders")
	for verb, err := range map[string]error{
		"Raise": g.Raise(t.Context(), claim(34)), "Exec": writers["Exec"](t, g, claim(33), "x"), "Tx": writers["Tx"](t, g, claim(33), "x"),
	} {
		checkText(t, verb, err, "works on the primary")
		if errors.Is(err, fencing.ErrRetry) {
			t.Errorf("%s: error %v is ErrRetry", verb, err)
		}
	}
}
