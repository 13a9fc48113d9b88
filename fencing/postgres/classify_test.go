// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"leasehold.dev/fencing"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	state := func(code string) error { return &pgconn.PgError{Code: code, SeverityUnlocalized: "ERROR"} }
	fatal := func(code string) error { return &pgconn.PgError{Code: code, SeverityUnlocalized: "FATAL"} }
	refused := func(detail string) error { return &pgconn.PgError{Code: stateRefused, Detail: detail} }
	tests := []struct {
		name           string
		ctx            context.Context
		err            error
		before, commit error // the class before a commit was sent, and after; nil: none
	}{
		{"serialization failure", nil, state("40001"), fencing.ErrRetry, fencing.ErrRetry},
		{"deadlock", nil, state("40P01"), fencing.ErrRetry, fencing.ErrRetry},
		{"lock timeout", nil, state("55P03"), fencing.ErrRetry, fencing.ErrRetry},
		{"session idled too long", nil, fatal("25P03"), fencing.ErrRetry, fencing.ErrRetry},
		{"transaction took too long", nil, fatal("25P04"), fencing.ErrRetry, fencing.ErrRetry},
		{"server is starting", nil, fatal("57P03"), fencing.ErrRetry, fencing.ErrRetry},
		{"server is full", nil, fatal("53300"), fencing.ErrRetry, fencing.ErrRetry},
		{"server is stopping", nil, fatal("57P01"), fencing.ErrRetry, fencing.ErrUnknown},
		{"server crashed", nil, fatal("57P02"), fencing.ErrRetry, fencing.ErrUnknown},
		{"completion unknown", nil, state("40003"), fencing.ErrRetry, fencing.ErrUnknown},
		{"pooler lost the server", nil, fatal("08006"), fencing.ErrRetry, fencing.ErrUnknown},
		{"wrong password", nil, fatal("28P01"), nil, fencing.ErrUnknown}, // never with a commit
		{"statement timeout", nil, state("57014"), nil, nil},
		{"unique violation", nil, state("23505"), nil, nil},
		{"connection lost", nil, io.ErrUnexpectedEOF, fencing.ErrRetry, fencing.ErrUnknown},
		{"connection lost as the context ended", ended, io.ErrUnexpectedEOF, nil, fencing.ErrUnknown},
		{"never sent", nil, unsent{}, fencing.ErrRetry, fencing.ErrRetry},
		{"never sent as the context ended", ended, unsent{}, nil, nil},
		{"the server rolled back", nil, pgx.ErrTxCommitRollback, nil, nil},
		{"raise inside a transaction", nil, errNotAlone, nil, nil},
		{"refused", nil, refused(`{"issuer":"c1/shop/orders","token":34,"holder":"b"}`), fencing.ErrFenced, fencing.ErrFenced},
		{"refused by a greatest mark", nil, refused(`{"issuer":"c1/shop/orders","token":4611686018427387904,"holder":"b"}`), fencing.ErrFenced, fencing.ErrFenced},
		{"refused by another issuer", nil, refused(`{"issuer":"other","token":34,"holder":"b"}`), fencing.ErrForeign, fencing.ErrForeign},
		{"refused, and raised since", nil, refused(`{"issuer":"c1/shop/orders","token":33,"holder":"pod-33"}`), fencing.ErrRetry, fencing.ErrRetry},
		{"refused, and the detail stripped", nil, refused(""), nil, nil},
		{"not armed", nil, state(stateNotArmed), fencing.ErrNotArmed, fencing.ErrNotArmed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx := tt.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			for committing, want := range map[bool]error{false: tt.before, true: tt.commit} {
				f := failure{claim: claim(33), decide: fencing.DecideWrite, committing: committing}
				err := classify(ctx, tt.err, f)
				if err == nil {
					t.Fatal("no error")
				}
				for _, class := range []error{
					fencing.ErrFenced, fencing.ErrForeign, fencing.ErrNotArmed, fencing.ErrRetry, fencing.ErrUnknown,
				} {
					if got := errors.Is(err, class); got != (class == want) {
						t.Errorf("committing %v: errors.Is(%v, %q) = %v", committing, err, class, got)
					}
				}
			}
		})
	}
}

// unsent is an error from before anything was sent, in pgx's terms.
type unsent struct{}

func (unsent) Error() string     { return "not sent" }
func (unsent) SafeToRetry() bool { return true }

func checkText(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: error %v, want %q", what, err, want)
	}
}
