// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leasehold.dev/fencing"
)

const issuer = "c1/shop/orders"

// modes are the two ways in which SQLite keeps a transaction apart until it is
// committed.
var modes = []string{"wal", "delete"}

// env is a database of one test.
type env struct {
	path  string
	db    *sql.DB
	guard *Guard
}

// newEnv makes a database with an armed mark of "orders" and a register that
// holds "initial". Pragmas apply to all of its connections.
func newEnv(t *testing.T, pragmas ...string) *env {
	t.Helper()
	e := &env{path: filepath.Join(t.TempDir(), "test.db")}
	e.db = openDB(t, e.path, pragmas...)
	must(t, Install(t.Context(), e.db))
	_, err := e.db.Exec(`CREATE TABLE register (id INTEGER PRIMARY KEY, value TEXT NOT NULL) STRICT;
		INSERT INTO register VALUES (1, 'initial')`)
	must(t, err)
	e.guard = New(e.db, "orders")
	must(t, e.guard.Arm(t.Context(), issuer))
	return e
}

// openDB opens the file, with no patience for other writers.
func openDB(t *testing.T, path string, pragmas ...string) *sql.DB {
	t.Helper()
	var query strings.Builder
	for _, p := range append([]string{"busy_timeout(0)", "synchronous(off)"}, pragmas...) {
		query.WriteString("&_pragma=" + p)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?"+query.String()[1:])
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (e *env) wantValue(t *testing.T, want string) {
	t.Helper()
	var got string
	must(t, e.db.QueryRow("SELECT value FROM register WHERE id = 1").Scan(&got))
	if got != want {
		t.Errorf("the register has %q, want %q", got, want)
	}
}

func (e *env) wantMark(t *testing.T, want fencing.Mark) {
	t.Helper()
	got, err := e.guard.Read(t.Context())
	must(t, err)
	if got != want {
		t.Errorf("the mark is %v, want %v", got, want)
	}
}

func (e *env) begin(t *testing.T) *sql.Tx {
	t.Helper()
	tx, err := e.db.Begin()
	must(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// claim is one of the test's issuer; the holder follows from the token.
func claim(token int64) fencing.Claim {
	return fencing.Claim{Issuer: issuer, Token: token, Holder: fmt.Sprintf("pod-%d", token)}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantClass expects the error's class; nil expects none.
func wantClass(t *testing.T, err, class error) {
	t.Helper()
	if !errors.Is(err, class) {
		t.Errorf("error %v, want %v", err, class)
	}
}

const setValue = "UPDATE register SET value = ? WHERE id = 1"

// writers are the two ways of this package.
var writers = map[string]func(ctx context.Context, g *Guard, c fencing.Claim, value string) error{
	"Exec": func(ctx context.Context, g *Guard, c fencing.Claim, value string) error {
		_, err := g.Exec(ctx, c, setValue, value)
		return err
	},
	"Tx": func(ctx context.Context, g *Guard, c fencing.Claim, value string) error {
		return g.Tx(ctx, c, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, setValue, value)
			return err
		})
	},
}

// helperEnv makes the test binary act as a holder that takes the file of that
// path, says so, and keeps it.
const helperEnv = "SQLITE_HELPER"

func TestMain(m *testing.M) {
	if path := os.Getenv(helperEnv); path != "" {
		helper(path)
	}
	os.Exit(m.Run())
}

func helper(path string) {
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		panic(err)
	}
	panic(New(db, "orders").Tx(context.Background(), claim(33), func(tx *sql.Tx) error {
		if _, err := tx.Exec(setValue, "33"); err != nil {
			return err
		}
		_, _ = os.Stdout.WriteString("writing\n")
		select {} // until killed
	}))
}
