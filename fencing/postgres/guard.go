// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"leasehold.dev/fencing"
)

//go:embed schema.sql
var schema string

// DB is what a guard needs of a database. *pgxpool.Pool, *pgx.Conn and pgx.Tx
// have it; through a Tx, a guard checks and writes but does not raise.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Install creates the schema "leasehold" and what is in it, or brings it up to
// this version. Marks that exist stay as they are. It needs CREATE on the
// database; the role that runs it becomes the owner.
func Install(ctx context.Context, db DB) error {
	// Without arguments pgx sends the whole script as one simple query, which
	// the server runs as one transaction.
	if _, err := db.Exec(ctx, schema); err != nil {
		return fmt.Errorf("install the fencing schema: %w", err)
	}
	return nil
}

// Guard is the fencing.Guard of one resource.
type Guard struct {
	db       DB
	resource string
}

var _ fencing.Guard = (*Guard)(nil)

// New returns the guard of a resource, which is a name for all the data that
// one lease protects. The name is free but must never change: another name is
// another mark.
func New(db DB, resource string) *Guard { return &Guard{db: db, resource: resource} }

// Arm implements fencing.Guard. It needs EXECUTE on leasehold.arm_mark, which
// the role of the holders should not have.
func (g *Guard) Arm(ctx context.Context, issuer string) error {
	if err := fencing.ValidateIssuer(issuer); err != nil {
		return g.wrap("arm", err)
	}
	s := newStatement("SELECT leasehold.arm_mark($1, $2)", g.resource, issuer)
	return g.call(ctx, "arm", s, fencing.Claim{Issuer: issuer}, decideIssuer)
}

// Raise implements fencing.Guard. It must be a transaction of its own, so that
// the reads that follow see the writes that it waited for, and is an error
// inside another one.
func (g *Guard) Raise(ctx context.Context, claim fencing.Claim) error {
	if err := claim.Validate(); err != nil {
		return g.wrap("raise", err)
	}
	s := newStatement("SELECT leasehold.raise_mark($1, $2, $3, $4)", g.claimArgs(claim)...)
	s.alone = true
	return g.call(ctx, "raise", s, claim, fencing.DecideRaise)
}

// Read implements fencing.Guard.
func (g *Guard) Read(ctx context.Context) (fencing.Mark, error) {
	s := newStatement("SELECT issuer, token, holder FROM leasehold.mark WHERE resource = $1", g.resource)
	var m fencing.Mark
	err := s.queryRow(ctx, g.db).Scan(&m.Issuer, &m.Token, &m.Holder)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fencing.Mark{}, g.wrap("read", &fencing.NotArmedError{})
	case err != nil:
		return fencing.Mark{}, g.wrap("read", classify(ctx, err, failure{decide: fencing.DecideWrite}))
	}
	return m, nil
}

// Adopt implements fencing.Guard. It needs EXECUTE on leasehold.adopt_mark.
func (g *Guard) Adopt(ctx context.Context, fromIssuer, toIssuer string) error {
	for _, issuer := range []string{fromIssuer, toIssuer} {
		if err := fencing.ValidateIssuer(issuer); err != nil {
			return g.wrap("adopt", err)
		}
	}
	s := newStatement("SELECT leasehold.adopt_mark($1, $2, $3)", g.resource, fromIssuer, toIssuer)
	s.alone = true
	return g.call(ctx, "adopt", s, fencing.Claim{Issuer: toIssuer}, decideIssuer)
}

// Check refuses unless the mark is the claim, and keeps it so until tx ends: an
// accepted check makes the whole of tx conditional on the claim. It is for
// transactions that Tx cannot make, such as one with options of its own or one
// with marks of several resources. A refused check leaves tx aborted. An error
// of the later Commit has no class: pass it to CommitError.
func (g *Guard) Check(ctx context.Context, tx pgx.Tx, claim fencing.Claim) error {
	if err := claim.Validate(); err != nil {
		return g.wrap("check", err)
	}
	s := newStatement("SELECT leasehold.check_mark($1, $2, $3, $4)", g.claimArgs(claim)...)
	err := s.queryRow(ctx, tx).Scan(nil)
	return g.wrap("check", classify(ctx, err, failure{claim: claim, decide: fencing.DecideWrite}))
}

// call runs a statement that can be repeated, so that a lost reply is a reason
// to run it again.
func (g *Guard) call(ctx context.Context, verb string, s *statement, claim fencing.Claim, decide decision) error {
	err := s.queryRow(ctx, g.db).Scan(nil)
	return g.wrap(verb, classify(ctx, err, failure{claim: claim, decide: decide}))
}

func (g *Guard) claimArgs(c fencing.Claim) []any {
	return []any{g.resource, c.Issuer, c.Token, c.Holder}
}

// wrap names the resource and what was tried; nil stays nil.
func (g *Guard) wrap(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %q: %w", verb, g.resource, err)
}

// decideIssuer gives the reason why the mark refused an issuer as such.
func decideIssuer(m fencing.Mark, c fencing.Claim) error {
	if m.Issuer == c.Issuer {
		return nil
	}
	return &fencing.ForeignError{Mine: c, Newest: m}
}
