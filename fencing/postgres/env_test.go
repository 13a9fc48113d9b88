// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold.dev/fencing"
	"leasehold.dev/internal/testenv/pgtest"
)

const (
	issuer = "c1/shop/orders"
	// template is the database, with the schema, that each test gets a copy of.
	template = "leasehold_template"
	// patience bounds every wait for something that should happen at once.
	patience = time.Minute
)

var (
	server    *pgtest.Server
	databases atomic.Int64
)

func TestMain(m *testing.M) { os.Exit(withServer(m.Run)) }

func withServer(run func() int) int {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	var err error
	if server, err = pgtest.Start(ctx, pgtest.Options{}); err != nil {
		log.Print(err)
		return 1
	}
	defer func() {
		if err := server.Stop(); err != nil {
			log.Print(err)
		}
	}()
	if err := makeTemplate(ctx); err != nil {
		log.Print(err)
		return 1
	}
	return run()
}

func makeTemplate(ctx context.Context) error {
	if err := execOn(ctx, "postgres", "CREATE DATABASE "+template); err != nil {
		return err
	}
	conn, err := connectTo(ctx, template)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `CREATE TABLE register (id int PRIMARY KEY, value text NOT NULL);
		INSERT INTO register VALUES (1, 'initial')`)
	return errors.Join(err, Install(ctx, conn), conn.Close(ctx))
}

// env is a database of one test.
type env struct {
	name  string
	pool  *pgxpool.Pool
	guard *Guard
}

// newEnv makes a database with an armed mark of "orders" and a register that
// holds "initial". Settings apply to the connections of the pool.
func newEnv(t *testing.T, settings ...string) *env {
	t.Helper()
	e := &env{name: fmt.Sprintf("test_%d", databases.Add(1))}
	if err := execOn(t.Context(), "postgres", "CREATE DATABASE "+e.name+" TEMPLATE "+template); err != nil {
		t.Fatal(err)
	}
	e.pool = e.newPool(t, settings...)
	e.guard = New(e.pool, "orders")
	must(t, e.guard.Arm(t.Context(), issuer))
	return e
}

// newPool opens another pool on the database; settings are name, value pairs.
func (e *env) newPool(t *testing.T, settings ...string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(server.DSN())
	must(t, err)
	config.ConnConfig.Database = e.name
	config.MaxConns = 16
	for i := 0; i < len(settings); i += 2 {
		config.ConnConfig.RuntimeParams[settings[i]] = settings[i+1]
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// begin opens a transaction on a connection of its own.
func (e *env) begin(t *testing.T) pgx.Tx {
	t.Helper()
	conn, err := connectTo(t.Context(), e.name)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	tx, err := conn.Begin(t.Context())
	must(t, err)
	return tx
}

func (e *env) value(t *testing.T) string {
	t.Helper()
	var value string
	must(t, e.pool.QueryRow(t.Context(), "SELECT value FROM register WHERE id = 1").Scan(&value))
	return value
}

func (e *env) wantValue(t *testing.T, want string) {
	t.Helper()
	if got := e.value(t); got != want {
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

// waitBlocked waits until n sessions of the database wait for a lock, or done
// is closed; it tells which.
func (e *env) waitBlocked(t *testing.T, n int, done <-chan struct{}) (blocked bool) {
	t.Helper()
	return e.waitFor(t, fmt.Sprintf("%d sessions are blocked", n), done,
		`SELECT count(*) >= $1 FROM pg_stat_activity
		 WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0`, n)
}

// waitFor polls until a query returns true, or done is closed.
func (e *env) waitFor(t *testing.T, what string, done <-chan struct{}, sql string, args ...any) bool {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		var ok bool
		must(t, e.pool.QueryRow(t.Context(), sql, args...).Scan(&ok))
		if ok {
			return true
		}
		select {
		case <-done:
			return false
		case <-deadline:
			t.Fatalf("not within %v: %s", patience, what)
		case <-tick.C:
		}
	}
}

// task is something that runs beside the test.
type task struct {
	done chan struct{}
	err  error // once done is closed
}

func start(f func() error) *task {
	tk := &task{done: make(chan struct{})}
	go func() {
		defer close(tk.done)
		tk.err = f()
	}()
	return tk
}

func (tk *task) wait(t *testing.T) error {
	t.Helper()
	select {
	case <-tk.done:
		return tk.err
	case <-time.After(patience):
		t.Fatalf("not done within %v", patience)
		return nil
	}
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

func connectTo(ctx context.Context, database string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(server.DSN())
	if err != nil {
		return nil, err
	}
	config.Database = database
	return pgx.ConnectConfig(ctx, config)
}

func execOn(ctx context.Context, database, sql string) error {
	conn, err := connectTo(ctx, database)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	return errors.Join(err, conn.Close(ctx))
}

// isState tells whether err is the server's, with that SQLSTATE.
func isState(err error, state string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == state
}
