// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"

	"leasehold.dev/fencing"
)

//go:embed schema.sql
var schema string

// Install creates the tables of the marks in the database of db. Marks that
// exist stay as they are.
func Install(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return fmt.Errorf("install the fencing tables: %w", err)
	}
	return nil
}

// Guard is the fencing.Guard of one resource.
type Guard struct {
	db       *sql.DB
	resource string
}

var _ fencing.Guard = (*Guard)(nil)

// New returns the guard of a resource, which is a name for all the data in one
// database that one lease protects. The name is free but must never change:
// another name is another mark.
func New(db *sql.DB, resource string) *Guard { return &Guard{db: db, resource: resource} }

// Arm implements fencing.Guard.
func (g *Guard) Arm(ctx context.Context, issuer string) error {
	claim := fencing.Claim{Issuer: issuer}
	if err := fencing.ValidateIssuer(issuer); err != nil {
		return g.wrap("arm", err)
	}
	if err := checkFile(ctx, g.db); err != nil {
		return g.wrap("arm", classify(err, claim, false))
	}
	return g.alone(ctx, "arm", claim, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO leasehold_mark (resource, issuer, token, holder) SELECT ?, ?, 0, '' "+
			"WHERE NOT EXISTS (SELECT 1 FROM leasehold_mark WHERE resource = ?)", g.resource, issuer, g.resource)
		if err != nil {
			return err
		}
		m, err := g.mark(ctx, tx)
		if err == nil && m.Issuer != issuer {
			err = &fencing.ForeignError{Mine: claim, Newest: m}
		}
		return err
	})
}

// Raise implements fencing.Guard.
func (g *Guard) Raise(ctx context.Context, claim fencing.Claim) error {
	if err := claim.Validate(); err != nil {
		return g.wrap("raise", err)
	}
	// Only a claim above the mark takes the writer's place: a stale one must not
	// hold up the holder.
	m, err := g.mark(ctx, g.db)
	if err != nil {
		return g.wrap("raise", classify(err, claim, false))
	}
	if err := fencing.DecideRaise(m, claim); err != nil || m == fencing.Mark(claim) {
		return g.wrap("raise", err)
	}
	return g.alone(ctx, "raise", claim, func(tx *sql.Tx) error {
		m, err := g.mark(ctx, tx)
		if err != nil {
			return err
		}
		if err := fencing.DecideRaise(m, claim); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE leasehold_mark SET token = ?, holder = ?, raised_at = datetime('now') WHERE resource = ?",
			claim.Token, claim.Holder, g.resource)
		return err
	})
}

// Read implements fencing.Guard.
func (g *Guard) Read(ctx context.Context) (fencing.Mark, error) {
	m, err := g.mark(ctx, g.db)
	return m, g.wrap("read", classify(err, fencing.Claim{}, false))
}

// Adopt implements fencing.Guard.
func (g *Guard) Adopt(ctx context.Context, fromIssuer, toIssuer string) error {
	claim := fencing.Claim{Issuer: toIssuer}
	if err := errors.Join(fencing.ValidateIssuer(fromIssuer), fencing.ValidateIssuer(toIssuer)); err != nil {
		return g.wrap("adopt", err)
	}
	return g.alone(ctx, "adopt", claim, func(tx *sql.Tx) error {
		m, err := g.mark(ctx, tx)
		switch {
		case err != nil || m.Issuer == toIssuer:
			return err
		case m.Issuer != fromIssuer:
			return &fencing.ForeignError{Mine: claim, Newest: m}
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO leasehold_former (resource, issuer, token) VALUES (?, ?, ?) "+
			"ON CONFLICT DO UPDATE SET token = excluded.token", g.resource, m.Issuer, m.Token)
		if err != nil {
			return err
		}
		// The new issuer is held to the token that it had here before.
		_, err = tx.ExecContext(ctx, "UPDATE leasehold_mark SET issuer = ?, holder = '', raised_at = NULL, token = coalesce("+
			"(SELECT token FROM leasehold_former WHERE resource = ? AND issuer = ?), 0) WHERE resource = ?",
			toIssuer, g.resource, toIssuer, g.resource)
		return err
	})
}

// queryer is a session or a transaction.
type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (g *Guard) mark(ctx context.Context, q queryer) (fencing.Mark, error) {
	var m fencing.Mark
	err := q.QueryRowContext(ctx, "SELECT issuer, token, holder FROM main.leasehold_mark WHERE resource = ?", g.resource).
		Scan(&m.Issuer, &m.Token, &m.Holder)
	if errors.Is(err, sql.ErrNoRows) {
		return fencing.Mark{}, &fencing.NotArmedError{}
	}
	return m, err
}

// alone runs a step that can be repeated in a transaction of its own, as the
// writer, so that a failed commit is a reason to run it again.
func (g *Guard) alone(ctx context.Context, verb string, claim fencing.Claim, step func(tx *sql.Tx) error) error {
	err := inTransaction(ctx, g.db, func(tx *sql.Tx) error {
		if err := becomeWriter(ctx, tx); err != nil {
			return err
		}
		return step(tx)
	}, (*sql.Tx).Commit)
	return g.wrap(verb, classify(err, claim, false))
}

// wrap names the resource and what was tried; nil stays nil.
func (g *Guard) wrap(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %q: %w", verb, g.resource, err)
}
