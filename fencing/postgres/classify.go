// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"leasehold.dev/fencing"
)

// SQLSTATEs of schema.sql.
const (
	stateRefused  = "LH001"
	stateNotArmed = "LH002"
)

// SQLSTATEs after which nothing was done and another try may do better
// (PostgreSQL's Appendix A): conflicts, waits that were cut short, and a server
// that is full, starting, or ended an idle session.
var retryStates = []string{
	"40001", // serialization_failure
	"40P01", // deadlock_detected
	"55P03", // lock_not_available
	"25P03", // idle_in_transaction_session_timeout
	"25P04", // transaction_timeout
	"57P05", // idle_session_timeout
	"57P03", // cannot_connect_now
	"53300", // too_many_connections
}

// SQLSTATEs with which a session ends in the middle of something. If it was a
// commit, it may have happened: a server that is told to stop while a commit
// waits for its replicas has committed locally.
var brokenStates = []string{
	"40003", // statement_completion_unknown
	"57P01", // admin_shutdown
	"57P02", // crash_shutdown
}

const classConnection = "08" // connection exceptions, sent by poolers

// decision gives the reason why a mark refused a claim.
type decision func(fencing.Mark, fencing.Claim) error

// failure is what was tried when an error came.
type failure struct {
	claim      fencing.Claim
	decide     decision
	committing bool // what was sent may have committed
}

// classify gives an error its class in package fencing, or returns it as it is:
// then nothing was done, and trying again would not help. Every failure after a
// commit may have been sent is ErrUnknown unless it is known to be from before
// it.
func classify(ctx context.Context, err error, f failure) error {
	if err == nil {
		return nil
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return classifyState(pgErr, err, f)
	}
	switch {
	case isLocal(err):
		return err
	case f.committing && !pgconn.SafeToRetry(err):
		return &fencing.UnknownError{Mine: f.claim, Err: err}
	case ctx.Err() != nil: // the caller's doing, not the store's
		return err
	default:
		return &fencing.RetryError{Mine: f.claim, Err: err}
	}
}

// classifyWork gives an error of the caller's function in a transaction its
// class, if it is known to come from the database: nothing is committed yet.
// lost tells whether the connection is gone.
func classifyWork(ctx context.Context, err error, claim fencing.Claim, lost bool) error {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case ok && (slices.Contains(retryStates, pgErr.Code) || breaksSession(pgErr)):
		return &fencing.RetryError{Mine: claim, Err: err}
	case !ok && lost && ctx.Err() == nil:
		return &fencing.RetryError{Mine: claim, Err: err}
	default:
		return err
	}
}

func classifyState(pgErr *pgconn.PgError, err error, f failure) error {
	switch {
	case pgErr.Code == stateNotArmed:
		return &fencing.NotArmedError{Mine: f.claim}
	case pgErr.Code == stateRefused:
		return refusal(pgErr, err, f)
	case slices.Contains(retryStates, pgErr.Code):
		return &fencing.RetryError{Mine: f.claim, Err: err}
	case f.committing && (breaksSession(pgErr) || isFatal(pgErr)):
		return &fencing.UnknownError{Mine: f.claim, Err: err}
	case breaksSession(pgErr):
		return &fencing.RetryError{Mine: f.claim, Err: err}
	default:
		return withAdvice(pgErr, err)
	}
}

func breaksSession(pgErr *pgconn.PgError) bool {
	return slices.Contains(brokenStates, pgErr.Code) || strings.HasPrefix(pgErr.Code, classConnection)
}

// isFatal tells whether the server closed the connection with this error, so
// that it may have come at any point of what was being done.
func isFatal(pgErr *pgconn.PgError) bool {
	severity := pgErr.SeverityUnlocalized
	return severity == "FATAL" || severity == "PANIC"
}

// refusal is the reason why the mark that the error carries refused the claim.
func refusal(pgErr *pgconn.PgError, err error, f failure) error {
	var m fencing.Mark
	if jsonErr := json.Unmarshal([]byte(pgErr.Detail), &m); jsonErr != nil {
		return fmt.Errorf("refused, by a mark that cannot be read from the error (%w); stop writing: %w", jsonErr, err)
	}
	if reason := f.decide(m, f.claim); reason != nil {
		return reason
	}
	// The mark became the claim between the check and the look at the reason.
	return &fencing.RetryError{Mine: f.claim, Err: err}
}

// isLocal tells whether an error arose in this process, before anything that
// counts was sent. pgx has no type for arguments that it cannot encode; should
// the text change, they would pass for ErrUnknown, which is safe.
func isLocal(err error) bool {
	return errors.Is(err, errNotAlone) || errors.Is(err, pgx.ErrTxCommitRollback) || errors.Is(err, pgx.ErrTxClosed) ||
		strings.HasPrefix(err.Error(), "failed to encode args") || strings.HasPrefix(err.Error(), "unable to encode")
}

// withAdvice adds what to do about the errors of a set-up that is not complete.
func withAdvice(pgErr *pgconn.PgError, err error) error {
	switch pgErr.Code {
	case "3F000", "42883", "42P01": // invalid_schema_name, undefined_function, undefined_table
		return fmt.Errorf("%w; if it is part of the schema leasehold, run postgres.Install in this database", err)
	case "42501": // insufficient_privilege
		return fmt.Errorf("%w; holders need USAGE on the schema leasehold, and only its owner arms and adopts", err)
	case "25006": // read_only_sql_transaction
		return fmt.Errorf("%w; a guard works on the primary and in a transaction that may write", err)
	case "42601": // syntax_error
		return fmt.Errorf("%w; Exec takes one INSERT, UPDATE or DELETE without RETURNING, Tx takes anything", err)
	}
	return err
}
