// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"leasehold.dev/fencing"
	"leasehold.dev/internal/testenv/mysqltest"
)

const (
	issuer = "c1/shop/orders"
	// patience bounds every wait for something that should happen at once.
	patience = time.Minute
)

var (
	server    *mysqltest.Server
	databases atomic.Int64
)

func TestMain(m *testing.M) { os.Exit(withServer(m.Run)) }

func withServer(run func() int) int {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	var err error
	if server, err = mysqltest.Start(ctx, "max-connections=500"); err != nil {
		log.Print(err)
		return 1
	}
	defer func() {
		if err := server.Stop(); err != nil {
			log.Print(err)
		}
	}()
	return run()
}

// env is a database of one test.
type env struct {
	name  string
	db    *sql.DB
	guard *Guard
}

// newEnv makes a database with an armed mark of "orders" and a register that
// holds "initial". Settings are variables of the sessions: name, value, ….
func newEnv(t *testing.T, settings ...string) *env {
	t.Helper()
	e := &env{name: fmt.Sprintf("test_%d", databases.Add(1))}
	must(t, execOn(t.Context(), "CREATE DATABASE "+e.name))
	e.db = e.open(t, settings...)
	must(t, Install(t.Context(), e.db))
	for _, s := range []string{
		"CREATE TABLE register (id int PRIMARY KEY, value mediumtext NOT NULL)",
		"INSERT INTO register VALUES (1, 'initial')",
	} {
		_, err := e.db.ExecContext(t.Context(), s)
		must(t, err)
	}
	e.guard = New(e.db, "orders")
	must(t, e.guard.Arm(t.Context(), issuer))
	return e
}

func (e *env) open(t *testing.T, settings ...string) *sql.DB {
	t.Helper()
	config := server.Config(e.name)
	config.ClientFoundRows = true
	config.Params = map[string]string{}
	for i := 0; i < len(settings); i += 2 {
		config.Params[settings[i]] = settings[i+1]
	}
	return openConfig(t, config)
}

func openConfig(t *testing.T, config *driver.Config) *sql.DB {
	t.Helper()
	connector, err := driver.NewConnector(config)
	must(t, err)
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(16)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// begin opens a transaction.
func (e *env) begin(t *testing.T) *sql.Tx {
	t.Helper()
	tx, err := e.db.Begin()
	must(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func (e *env) value(t *testing.T) string {
	t.Helper()
	var value string
	must(t, e.db.QueryRowContext(t.Context(), "SELECT value FROM register WHERE id = 1").Scan(&value))
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

// waitBlocked waits until n transactions of the database wait for a lock, or
// done is closed; it tells which.
func (e *env) waitBlocked(t *testing.T, n int, done <-chan struct{}) (blocked bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		waiting, err := waits.now(ctx, e)
		if err != nil {
			t.Fatalf("%d transactions are not blocked within %v: %v", n, patience, err)
		}
		if waiting >= n {
			return true
		}
		select {
		case <-done:
			return false
		default:
		}
	}
}

// lockWaits counts the transactions that wait for a lock, by database, for all
// tests together: the server keeps its answer for as long as it is asked more
// often than every 100 ms, by anybody.
type lockWaits struct {
	mu      sync.Mutex
	asked   time.Time
	waiting map[string]int
}

var waits lockWaits

const askEvery = 120 * time.Millisecond

// of returns the count for a database, or -1 if there is none since then.
func (w *lockWaits) of(ctx context.Context, e *env, since time.Time) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); now.Sub(w.asked) >= askEvery {
		waiting, err := e.lockWaits(ctx)
		if err != nil {
			return 0, err
		}
		w.waiting, w.asked = waiting, now
	}
	if w.asked.Before(since) {
		return -1, nil
	}
	return w.waiting[e.name], nil
}

// now returns the count for a database at some moment from now on.
func (w *lockWaits) now(ctx context.Context, e *env) (int, error) {
	began := time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if n, err := w.of(ctx, e, began); n >= 0 || err != nil {
			return n, err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-tick.C:
		}
	}
}

func (e *env) lockWaits(ctx context.Context) (map[string]int, error) {
	rows, err := e.db.QueryContext(ctx, `SELECT p.db, count(*) FROM information_schema.innodb_trx t
		JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
		WHERE t.trx_state = 'LOCK WAIT' AND p.db IS NOT NULL GROUP BY p.db`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	waiting := map[string]int{}
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			return nil, err
		}
		waiting[name] = n
	}
	return waiting, rows.Err()
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

func execOn(ctx context.Context, statement string) error {
	connector, err := driver.NewConnector(server.Config(""))
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	_, err = db.ExecContext(ctx, statement)
	return errors.Join(err, db.Close())
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
