// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"leasehold.dev/fencing"
)

//go:embed schema.sql
var schema string

// errNoResource: the empty name is that of the probe's row.
var errNoResource = errors.New("the resource has no name")

// errFoundRows: see the package's text.
var errFoundRows = errors.New("the connections report rows that were changed, not rows that were found, so that a write of values " +
	"which are there already looks like a missing row; set clientFoundRows=true in the data source name")

// Install creates the tables of the marks in the database of db. Marks that
// exist stay as they are. It needs CREATE and INSERT.
func Install(ctx context.Context, db *sql.DB) error {
	for statement := range strings.SplitSeq(schema, ";\n") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("install the fencing tables: %w", err)
		}
	}
	var others int
	err := db.QueryRowContext(ctx, "SELECT count(*) FROM information_schema.tables WHERE table_schema = database() "+
		"AND table_name IN ('leasehold_mark', 'leasehold_former') AND engine <> 'InnoDB'").Scan(&others)
	if err == nil && others > 0 {
		err = errors.New("the server replaced InnoDB by an engine without transactions; enable InnoDB, drop the tables and install again")
	}
	if err != nil {
		return fmt.Errorf("install the fencing tables: %w", err)
	}
	return nil
}

// Guard is the fencing.Guard of one resource.
type Guard struct {
	db        *sql.DB
	resource  string
	foundRows atomic.Bool // the connections have been seen to count rows that were found
}

var _ fencing.Guard = (*Guard)(nil)

// New returns the guard of a resource, which is a name for all the data in one
// database that one lease protects. The name, of at most 255 characters, is free
// but must never change: another name is another mark.
func New(db *sql.DB, resource string) *Guard { return &Guard{db: db, resource: resource} }

// Arm implements fencing.Guard. It needs INSERT on leasehold_mark, which the
// account of the holders should not have.
func (g *Guard) Arm(ctx context.Context, issuer string) error {
	claim := fencing.Claim{Issuer: issuer}
	return g.alone(ctx, "arm", claim, fencing.ValidateIssuer(issuer), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO leasehold_mark (resource, issuer, token, holder) VALUES (?, ?, 0, '') "+
			"ON DUPLICATE KEY UPDATE resource = leasehold_mark.resource", g.resource, issuer)
		if err != nil {
			return err
		}
		m, err := g.mark(ctx, tx, "")
		if err == nil && m.Issuer != issuer {
			err = &fencing.ForeignError{Mine: claim, Newest: m}
		}
		return err
	})
}

// Raise implements fencing.Guard.
func (g *Guard) Raise(ctx context.Context, claim fencing.Claim) error {
	if err := g.ready(ctx, claim); err != nil {
		return g.wrap("raise", err)
	}
	// Only a claim above the mark waits for the row: a stale one must not hold up
	// the holder, and the holder's own repetition must not hold up its writes.
	m, err := g.mark(ctx, g.db, "")
	if err != nil {
		return g.wrap("raise", classify(ctx, err, claim, false))
	}
	if err := fencing.DecideRaise(m, claim); err != nil || m == fencing.Mark(claim) {
		return g.wrap("raise", err)
	}
	return g.alone(ctx, "raise", claim, nil, func(tx *sql.Tx) error {
		m, err := g.mark(ctx, tx, "FOR UPDATE")
		if err != nil {
			return err
		}
		if err := fencing.DecideRaise(m, claim); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE leasehold_mark SET token = ?, holder = ?, raised_at = now(6) WHERE resource = ?",
			claim.Token, claim.Holder, g.resource)
		return err
	})
}

// Read implements fencing.Guard.
func (g *Guard) Read(ctx context.Context) (fencing.Mark, error) {
	m, err := g.mark(ctx, g.db, "")
	return m, g.wrap("read", classify(ctx, err, fencing.Claim{}, false))
}

// Adopt implements fencing.Guard. It needs INSERT and UPDATE on both tables.
func (g *Guard) Adopt(ctx context.Context, fromIssuer, toIssuer string) error {
	claim := fencing.Claim{Issuer: toIssuer}
	valid := errors.Join(fencing.ValidateIssuer(fromIssuer), fencing.ValidateIssuer(toIssuer))
	return g.alone(ctx, "adopt", claim, valid, func(tx *sql.Tx) error {
		m, err := g.mark(ctx, tx, "FOR UPDATE")
		switch {
		case err != nil || m.Issuer == toIssuer:
			return err
		case m.Issuer != fromIssuer:
			return &fencing.ForeignError{Mine: claim, Newest: m}
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO leasehold_former (resource, issuer, token) VALUES (?, ?, ?) "+
			"ON DUPLICATE KEY UPDATE token = ?", g.resource, m.Issuer, m.Token, m.Token)
		if err != nil {
			return err
		}
		// The new issuer is held to the token that it had here before.
		_, err = tx.ExecContext(ctx, "UPDATE leasehold_mark SET issuer = ?, holder = '', raised_at = NULL, token = coalesce("+
			"(SELECT f.token FROM leasehold_former f WHERE f.resource = ? AND f.issuer = ?), 0) WHERE resource = ?",
			toIssuer, g.resource, toIssuer, g.resource)
		return err
	})
}

// queryer is a session or a transaction.
type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// mark reads the mark, with a clause that locks it or without.
func (g *Guard) mark(ctx context.Context, q queryer, lock string) (fencing.Mark, error) {
	if g.resource == "" {
		return fencing.Mark{}, errNoResource
	}
	var m fencing.Mark
	err := q.QueryRowContext(ctx, "SELECT issuer, token, holder FROM leasehold_mark WHERE resource = ? "+lock, g.resource).
		Scan(&m.Issuer, &m.Token, &m.Holder)
	if errors.Is(err, sql.ErrNoRows) {
		return fencing.Mark{}, &fencing.NotArmedError{}
	}
	return m, err
}

// alone runs a step that can be repeated in a transaction of its own, so that a
// lost reply is a reason to run it again.
func (g *Guard) alone(ctx context.Context, verb string, claim fencing.Claim, invalid error, step func(tx *sql.Tx) error) error {
	if g.resource == "" {
		invalid = errNoResource
	}
	if invalid != nil {
		return g.wrap(verb, invalid)
	}
	err := inTransaction(ctx, g.db, func(tx *sql.Tx) error { return step(tx) }, (*sql.Tx).Commit)
	return g.wrap(verb, classify(ctx, err, claim, false))
}

// ready refuses a malformed claim, and connections that do not count the rows
// that were found. It asks until they do; all connections of db are made alike.
func (g *Guard) ready(ctx context.Context, claim fencing.Claim) error {
	if err := claim.Validate(); err != nil || g.foundRows.Load() {
		return err
	}
	result, err := g.db.ExecContext(ctx, "UPDATE leasehold_mark SET raised_at = NULL WHERE resource = ''")
	if err != nil {
		return classify(ctx, err, claim, false)
	}
	switch rows, err := result.RowsAffected(); {
	case err != nil:
		return err
	case rows != 1:
		return errFoundRows
	}
	g.foundRows.Store(true)
	return nil
}

// wrap names the resource and what was tried; nil stays nil.
func (g *Guard) wrap(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %q: %w", verb, g.resource, err)
}
