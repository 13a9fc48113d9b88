// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"leasehold.dev/fencing"
)

// TestMarkFollowsTheRule applies claims to marks in the store and compares with
// the rule in package fencing.
func TestMarkFollowsTheRule(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := t.Context()
	marks := []fencing.Mark{
		{Issuer: issuer},
		{Issuer: issuer, Token: 34, Holder: "b"},
		{Issuer: issuer, Token: 34},
		{Issuer: "other", Token: 34, Holder: "b"},
		{},
	}
	claims := []fencing.Claim{
		{Issuer: issuer, Token: 33, Holder: "a"}, {Issuer: issuer, Token: 34, Holder: "b"}, {Issuer: issuer, Token: 34, Holder: "B"},
		{Issuer: issuer, Token: 35, Holder: "b"}, {Issuer: issuer, Token: fencing.MaxToken, Holder: "z"}, {Issuer: issuer, Holder: "b"},
		{Issuer: strings.ToUpper(issuer), Token: 34, Holder: "b"},
	}
	for _, m := range marks {
		for _, c := range claims {
			must(t, setMark(ctx, e.guard, m))
			_, err := e.guard.Exec(ctx, c, setValue, "x")
			sameClass(t, fmt.Sprintf("%v writes under %v", c, m), err, fencing.DecideWrite(m, c))
			err = e.guard.Raise(ctx, c)
			want := fencing.DecideRaise(m, c)
			sameClass(t, fmt.Sprintf("%v raises %v", c, m), err, want)
			if want == nil {
				e.wantMark(t, fencing.Mark(c))
			}
		}
	}
}

// setMark writes the mark behind the guard's back, without its triggers.
func setMark(ctx context.Context, g *Guard, m fencing.Mark) error {
	tx, err := g.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	_, err = tx.Exec("DROP TRIGGER leasehold_mark_goes; DELETE FROM leasehold_mark WHERE resource = ?", g.resource)
	if err == nil && m.Armed() {
		_, err = tx.Exec("INSERT INTO leasehold_mark (resource, issuer, token, holder) VALUES (?, ?, ?, ?)", g.resource, m.Issuer, m.Token, m.Holder)
	}
	if err == nil {
		_, err = tx.Exec(schema)
	}
	return errors.Join(err, tx.Commit())
}

func sameClass(t *testing.T, what string, got, want error) {
	t.Helper()
	for _, class := range []error{fencing.ErrFenced, fencing.ErrNotRaised, fencing.ErrForeign, fencing.ErrNotArmed, fencing.ErrInvalidClaim} {
		if errors.Is(got, class) != errors.Is(want, class) || (got == nil) != (want == nil) {
			t.Errorf("%s: error %v, want that of the rule: %v", what, got, want)
		}
	}
}

func TestArmAndAdopt(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := t.Context()
	must(t, e.guard.Raise(ctx, claim(34)))
	must(t, Install(ctx, e.db)) // again
	must(t, e.guard.Arm(ctx, issuer))
	e.wantMark(t, fencing.Mark(claim(34)))
	wantClass(t, e.guard.Arm(ctx, "other"), fencing.ErrForeign)
	wantClass(t, e.guard.Arm(ctx, ""), fencing.ErrInvalidClaim)

	wantClass(t, e.guard.Adopt(ctx, "third", "other"), fencing.ErrForeign)
	for range 2 {
		must(t, e.guard.Adopt(ctx, issuer, "other"))
		e.wantMark(t, fencing.Mark{Issuer: "other"})
	}
	wantClass(t, writers["Tx"](ctx, e.guard, claim(34), "x"), fencing.ErrForeign)
	must(t, e.guard.Raise(ctx, fencing.Claim{Issuer: "other", Token: 2, Holder: "o"}))
	must(t, e.guard.Adopt(ctx, "other", issuer))
	e.wantMark(t, fencing.Mark{Issuer: issuer, Token: 34})
	wantClass(t, e.guard.Raise(ctx, claim(34)), fencing.ErrFenced)
	must(t, e.guard.Raise(ctx, claim(35)))
	must(t, e.guard.Adopt(ctx, issuer, "other"))
	e.wantMark(t, fencing.Mark{Issuer: "other", Token: 2})

	none := New(e.db, "nothing")
	wantClass(t, none.Adopt(ctx, issuer, "other"), fencing.ErrNotArmed)
	_, err := none.Read(ctx)
	wantClass(t, err, fencing.ErrNotArmed)
}

// TestAccidents: what a slip of the hand would do to a mark is refused.
func TestAccidents(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	must(t, e.guard.Raise(t.Context(), claim(34)))
	for _, s := range []string{
		"DELETE FROM leasehold_mark", "UPDATE leasehold_mark SET token = 33", "UPDATE leasehold_mark SET resource = 'x'",
		"INSERT OR REPLACE INTO leasehold_mark VALUES ('orders', '" + issuer + "', 33, 'a', NULL)",
	} {
		_, err := e.db.Exec(s)
		if err == nil || !strings.Contains(err.Error(), "leasehold: a mark ") {
			t.Errorf("%s: error %v, want a trigger's", s, err)
		}
	}
	e.wantMark(t, fencing.Mark(claim(34)))
}

// TestArmRefusesWhatDoesNotLast: a mark in memory, or on a file system without
// locks to rely on, protects nothing.
func TestArmRefusesWhatDoesNotLast(t *testing.T) {
	t.Parallel()
	for _, name := range []string{":memory:", ""} {
		db := openDB(t, name)
		db.SetMaxOpenConns(1)
		must(t, Install(t.Context(), db))
		if err := New(db, "orders").Arm(t.Context(), issuer); !errors.Is(err, errMemory) {
			t.Errorf("%q: error %v, want that of a database in memory", name, err)
		}
	}
	if remote, err := onNetwork(filepath.Dir(newEnv(t).path)); remote || err != nil {
		t.Errorf("the temporary directory is on a network: %v, %v", remote, err)
	}
	if _, err := onNetwork(filepath.Join(t.TempDir(), "nothing")); err == nil {
		t.Error("no error of a file that is not there")
	}
}
