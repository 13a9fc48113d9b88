// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"leasehold.dev/fencing"
)

// rollbackTimeout bounds the rollback of a transaction whose context may have
// ended. If it is exceeded the connection is closed, to the same effect.
const rollbackTimeout = 5 * time.Second

// Exec runs one INSERT, UPDATE or DELETE on condition of the claim, in one
// round trip, and returns the number of rows it affected. Its arguments are
// pgx's: $1, $2, … or one pgx.NamedArgs.
//
// Zero rows and no error means that the claim was good and no row matched. A
// refusal, which says why, comes before the statement has touched anything.
// Call it only after Raise has returned.
//
// The statement becomes part of a larger one, so it must have no RETURNING and
// no second statement after it; use Tx for what does not fit. After
// fencing.ErrUnknown, look for the nonce that the statement stored.
func (g *Guard) Exec(ctx context.Context, claim fencing.Claim, sql string, args ...any) (int64, error) {
	s, err := g.guarded(ctx, claim, sql, args)
	if err != nil {
		return 0, g.wrap("write", err)
	}
	var rows int64
	if err := s.queryRow(ctx, g.db).Scan(&rows); err != nil {
		f := failure{claim: claim, decide: fencing.DecideWrite, committing: s.sent}
		return 0, g.wrap("write", classify(ctx, err, f))
	}
	return rows, nil
}

// guarded builds the conditional form of a statement. The check is evaluated
// first, since the CASE needs it, and if it fails the whole statement does. Its
// safety does not hang on that order: the check locks the mark until the
// statement commits, so it holds for the write whichever ran first. Nor does it
// hang on the statement's text, which need not mention the guard.
func (g *Guard) guarded(ctx context.Context, claim fencing.Claim, sql string, args []any) (*statement, error) {
	if err := claim.Validate(); err != nil {
		return nil, err
	}
	sql, args, err := positional(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	n := len(args)
	// The line breaks end a comment with which the statement may end.
	text := fmt.Sprintf("WITH leasehold_write AS (\n%s\nRETURNING 1)\n"+
		"SELECT CASE WHEN leasehold.check_mark($%d, $%d, $%d, $%d) THEN (SELECT count(*) FROM leasehold_write) END",
		strings.TrimRight(sql, "; \t\r\n"), n+1, n+2, n+3, n+4)
	return newStatement(text, append(slices.Clone(args), g.claimArgs(claim)...)...), nil
}

var placeholder = regexp.MustCompile(`\$([0-9]+)`)

// positional returns the statement with plain positional arguments. It refuses
// placeholders without an argument: the guard's own arguments follow the
// caller's, and such a placeholder would take one of them for data.
func positional(ctx context.Context, sql string, args []any) (string, []any, error) {
	var err error
	if len(args) > 0 {
		switch named := args[0].(type) {
		case pgx.NamedArgs:
			sql, args, err = named.RewriteQuery(ctx, nil, sql, args[1:])
		case pgx.StrictNamedArgs:
			sql, args, err = named.RewriteQuery(ctx, nil, sql, args[1:])
		case pgx.QueryRewriter, pgx.QueryExecMode, pgx.QueryResultFormats, pgx.QueryResultFormatsByOID:
			err = fmt.Errorf("the first argument is a %T, which a guarded statement cannot take; "+
				"set it on the connection, or use Tx", named)
		}
	}
	if err != nil {
		return "", nil, err
	}
	for _, match := range placeholder.FindAllStringSubmatch(sql, -1) {
		if i, err := strconv.Atoi(match[1]); err != nil || i > len(args) {
			return "", nil, fmt.Errorf("the statement has $%s but only %d arguments; add the argument, "+
				"and pass a text that contains $%s as an argument too", match[1], len(args), match[1])
		}
	}
	return sql, args, nil
}

// Tx runs fn in a transaction on condition of the claim, and commits if fn
// returns nil. The mark is checked first, and stays as it is until the
// transaction has ended: a raise waits for it, so keep fn short.
//
// An error of fn rolls back and is returned; if it came from a conflict or a
// lost connection it matches fencing.ErrRetry. fn must not commit or roll back
// by a statement of its own.
func (g *Guard) Tx(ctx context.Context, claim fencing.Claim, fn func(tx pgx.Tx) error) error {
	if err := claim.Validate(); err != nil {
		return g.wrap("write", err)
	}
	tx, err := g.db.Begin(ctx)
	if err != nil {
		return g.wrap("begin", classify(ctx, err, failure{claim: claim, decide: fencing.DecideWrite}))
	}
	defer rollback(ctx, tx) // after a commit it does nothing
	if err := g.Check(ctx, tx, claim); err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		return classifyWork(ctx, err, claim, tx.Conn().IsClosed())
	}
	return g.CommitError(ctx, claim, tx.Commit(ctx))
}

// CommitError gives the error of a Commit its class, for a transaction with
// Check. nil stays nil.
func (g *Guard) CommitError(ctx context.Context, claim fencing.Claim, err error) error {
	return g.wrap("commit", classify(ctx, err, failure{claim: claim, decide: fencing.DecideWrite, committing: true}))
}

func rollback(ctx context.Context, tx pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = tx.Rollback(ctx) // on failure pgx closes the connection, and the server rolls back
}

// statement is a query that notes whether it was handed to a connection. pgx
// asks it for its text at that moment (pgx.QueryRewriter); an error from before
// it, say of a pool without a free connection, is not ambiguous.
type statement struct {
	sql   string
	args  []any
	alone bool // refuse to run inside a transaction
	sent  bool
}

func newStatement(sql string, args ...any) *statement { return &statement{sql: sql, args: args} }

// errNotAlone: inside REPEATABLE READ the raise would fix the view of the data
// at a moment before it waited for older writers, and hide what they wrote.
var errNotAlone = errors.New("inside a transaction: the mark must be raised, and the raise committed, before the state is read; " +
	"give the guard a pool or a connection without an open transaction")

func (s *statement) queryRow(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) pgx.Row {
	return db.QueryRow(ctx, s.sql, s)
}

// RewriteQuery implements pgx.QueryRewriter.
func (s *statement) RewriteQuery(_ context.Context, conn *pgx.Conn, _ string, _ []any) (string, []any, error) {
	if s.alone && conn.PgConn().TxStatus() != 'I' {
		return "", nil, errNotAlone
	}
	s.sent = true
	return s.sql, s.args, nil
}
