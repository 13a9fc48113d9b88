// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold.dev/fencing"
	"leasehold.dev/fencing/fencetest"
)

// TestConformance runs each way to guard a write through the suite.
func TestConformance(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			database := newJournals(t)
			fencetest.Run(t, fencetest.Suite{
				Adapter: "postgres/" + m.name,
				Store:   server.SocketPath(),
				Open:    opener(database, m),
				Without: m.without,
				Naive:   naives(database, m),
				Seed:    *seed,
			})
		})
	}
}

// newJournals makes a database in which every resource has a row for its
// journal, so that the row's lock puts the entries in the order of their
// commits.
func newJournals(t *testing.T) (database string) {
	t.Helper()
	e := newEnv(t)
	_, err := e.pool.Exec(t.Context(), "CREATE TABLE journal (resource text PRIMARY KEY, entries text NOT NULL DEFAULT '')")
	must(t, err)
	return e.name
}

// mode is one way to guard a write.
type mode struct {
	name    string
	append  func(ctx context.Context, tg *target, c fencing.Claim, entry string) error
	without map[string]string
}

const appendEntry = "UPDATE journal SET entries = entries || $1 WHERE resource = $2"

var modes = []mode{
	{name: "statement", append: func(ctx context.Context, tg *target, c fencing.Claim, entry string) error {
		_, err := tg.Exec(ctx, c, appendEntry, entry, tg.resource)
		return err
	}},
	{name: "transaction", append: func(ctx context.Context, tg *target, c fencing.Claim, entry string) error {
		return tg.Tx(ctx, c, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, appendEntry, entry, tg.resource)
			return err
		})
	}},
}

// naives are the statements that look like the mode's and do not hold.
func naives(database string, m mode) []fencetest.Naive {
	byRow := []string{fencetest.CaseRowLock}
	always := []string{fencetest.CaseFrozen, fencetest.CaseRowLock, fencetest.CaseContended}
	all := map[string][]fencetest.Naive{
		"statement": {
			naive(database, "sub-select of the token", byRow, naiveStatement(`UPDATE journal SET entries = entries || $1
				WHERE resource = $2 AND (SELECT token FROM leasehold.mark m WHERE m.resource = $2) <= $3 AND $4 <> ''`)),
			naive(database, "EXISTS", byRow, naiveStatement(`UPDATE journal SET entries = entries || $1 WHERE resource = $2
				AND EXISTS (SELECT 1 FROM leasehold.mark m WHERE m.resource = $2 AND token = $3 AND holder = $4)`)),
			naive(database, "takes a lost reply for a refusal", []string{fencetest.CaseLostWrite}, forgetful(m)),
		},
		"transaction": {
			naive(database, "SELECT, then write", always, naiveTransaction("")),
			naive(database, "SELECT FOR KEY SHARE, then write", always, naiveTransaction("FOR KEY SHARE")),
			naive(database, "takes a lost reply for a refusal", []string{fencetest.CaseLostWrite}, forgetful(m)),
		},
	}
	return all[m.name]
}

type appender = func(ctx context.Context, tg *target, c fencing.Claim, entry string) error

func naive(database, name string, caughtBy []string, write appender) fencetest.Naive {
	return fencetest.Naive{Name: name, Open: opener(database, mode{append: write}), CaughtBy: caughtBy}
}

// naiveTransaction checks in the transaction of the write, with a lock clause
// that does not hold the raise up.
func naiveTransaction(lock string) appender {
	return func(ctx context.Context, tg *target, c fencing.Claim, entry string) error {
		return pgx.BeginFunc(ctx, tg.pool, func(tx pgx.Tx) error {
			var m fencing.Mark
			err := tx.QueryRow(ctx, "SELECT issuer, token, holder FROM leasehold.mark WHERE resource = $1 "+lock, tg.resource).
				Scan(&m.Issuer, &m.Token, &m.Holder)
			if err != nil {
				return err
			}
			if err := fencing.DecideWrite(m, c); err != nil {
				return err
			}
			_, err = tx.Exec(ctx, appendEntry, entry, tg.resource)
			return err
		})
	}
}

// naiveStatement takes no affected row for a refusal.
func naiveStatement(sql string) appender {
	return func(ctx context.Context, tg *target, c fencing.Claim, entry string) error {
		tag, err := tg.pool.Exec(ctx, sql, entry, tg.resource, c.Token, c.Holder)
		if err == nil && tag.RowsAffected() == 0 {
			return &fencing.FencedError{Mine: c}
		}
		return err
	}
}

// forgetful is the mode without the class for what is not known.
func forgetful(m mode) appender {
	return func(ctx context.Context, tg *target, c fencing.Claim, entry string) error {
		err := m.append(ctx, tg, c, entry)
		if errors.Is(err, fencing.ErrUnknown) {
			return &fencing.RetryError{Mine: c, Err: errors.New(err.Error())}
		}
		return err
	}
}

// target is a client with a pool of its own.
type target struct {
	*Guard
	pool   *pgxpool.Pool
	append appender
}

func opener(database string, m mode) fencetest.Opener {
	return func(t *testing.T, r fencetest.Resource) fencetest.Target {
		pool := dial(t, database, r.Addr)
		_, err := pool.Exec(t.Context(), "INSERT INTO journal (resource) VALUES ($1) ON CONFLICT DO NOTHING", r.Name)
		must(t, err)
		return &target{Guard: New(pool, r.Name), pool: pool, append: m.append}
	}
}

// dial opens a pool on a server at a TCP address or a Unix socket.
func dial(t *testing.T, database, addr string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig("sslmode=disable user=postgres")
	must(t, err)
	config.ConnConfig.Database = database
	config.ConnConfig.Fallbacks = nil
	config.MaxConns = 4
	config.HealthCheckPeriod = time.Hour // its connections would take a proxy's faults
	host, port, err := net.SplitHostPort(addr)
	if strings.HasPrefix(addr, "/") {
		host, port, err = filepath.Dir(addr), strings.TrimPrefix(filepath.Ext(addr), "."), nil
	}
	must(t, err)
	n, err := strconv.ParseUint(port, 10, 16)
	must(t, err)
	config.ConnConfig.Host, config.ConnConfig.Port = host, uint16(n)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func (tg *target) Append(ctx context.Context, c fencing.Claim, nonce string) error {
	return tg.append(ctx, tg, c, entry(c, nonce))
}

// entry is one of the text; names of holders may have any character but a space.
func entry(c fencing.Claim, nonce string) string {
	return fmt.Sprintf("%d %s %s\n", c.Token, c.Holder, nonce)
}

func (tg *target) Journal(ctx context.Context) ([]fencetest.Entry, error) {
	var text string
	if err := tg.pool.QueryRow(ctx, "SELECT entries FROM journal WHERE resource = $1", tg.resource).Scan(&text); err != nil {
		return nil, err
	}
	return parseEntries(text)
}

func parseEntries(text string) ([]fencetest.Entry, error) {
	var journal []fencetest.Entry
	for line := range strings.Lines(text) {
		parts := strings.Fields(line)
		token, err := strconv.ParseInt(parts[0], 10, 64)
		if err != nil {
			return nil, err
		}
		journal = append(journal, fencetest.Entry{Token: token, Holder: parts[1], Nonce: parts[2]})
	}
	return journal, nil
}

// Waiting counts all of the database, in which one case runs at a time.
func (tg *target) Waiting(ctx context.Context) (n int, err error) {
	err = tg.pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0`).Scan(&n)
	return n, err
}

func (tg *target) Lock(ctx context.Context) (func(context.Context) error, error) {
	tx, err := tg.pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, "UPDATE journal SET entries = entries WHERE resource = $1", tg.resource)
	return tx.Commit, err
}

func (tg *target) Begin(ctx context.Context, c fencing.Claim, nonce string) (fencetest.Transaction, error) {
	tx, err := tg.pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	if err := tg.Check(ctx, tx, c); err != nil {
		return nil, errors.Join(err, tx.Rollback(ctx))
	}
	_, err = tx.Exec(ctx, appendEntry, entry(c, nonce), tg.resource)
	return transaction{tg, tx, c}, err
}

type transaction struct {
	tg    *target
	tx    pgx.Tx
	claim fencing.Claim
}

func (t transaction) Commit(ctx context.Context) error {
	return t.tg.CommitError(ctx, t.claim, t.tx.Commit(ctx))
}

func (tg *target) DropMark(ctx context.Context) error {
	_, err := tg.pool.Exec(ctx, "DELETE FROM leasehold.mark WHERE resource = $1", tg.resource)
	return err
}

func (tg *target) Snapshot(ctx context.Context) (func(context.Context) error, error) {
	var mark, entries string
	err := tg.pool.QueryRow(ctx, `SELECT row_to_json(m)::text, entries FROM leasehold.mark m JOIN journal j USING (resource)
		WHERE resource = $1`, tg.resource).Scan(&mark, &entries)
	return func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, tg.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "DELETE FROM leasehold.mark WHERE resource = $1", tg.resource); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "UPDATE journal SET entries = $1 WHERE resource = $2", entries, tg.resource); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "INSERT INTO leasehold.mark SELECT * FROM json_populate_record(NULL::leasehold.mark, $1::json)", mark)
			return err
		})
	}, err
}

// Remove deletes the row and creates it anew: the mark is elsewhere.
func (tg *target) Remove(ctx context.Context, c fencing.Claim) error {
	return tg.Tx(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "DELETE FROM journal WHERE resource = $1", tg.resource); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO journal (resource) VALUES ($1)", tg.resource)
		return err
	})
}
