// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"errors"
	"fmt"
	"math/rand/v2"
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
			e.setMark(t, m)
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

func (e *env) setMark(t *testing.T, m fencing.Mark) {
	t.Helper()
	_, err := e.db.Exec("DELETE FROM leasehold_mark WHERE resource = 'orders'")
	must(t, err)
	if m.Armed() {
		_, err = e.db.Exec("INSERT INTO leasehold_mark (resource, issuer, token, holder) VALUES ('orders', ?, ?, ?)", m.Issuer, m.Token, m.Holder)
		must(t, err)
	}
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
	empty := New(e.db, "")
	for _, err := range []error{empty.Arm(ctx, issuer), empty.Raise(ctx, claim(1)), empty.Adopt(ctx, "probe", issuer)} {
		if !errors.Is(err, errNoResource) {
			t.Errorf("error %v, want that of an empty name", err)
		}
	}
}

// TestHolderRights: with the rights that the package's text gives, a holder can
// raise and write, and neither arm, adopt, lower by way of an issuer, nor delete.
func TestHolderRights(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := t.Context()
	for _, s := range []string{
		"CREATE USER %[1]s", "GRANT SELECT, UPDATE (token, holder, raised_at) ON %[1]s.leasehold_mark TO %[1]s",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON %[1]s.register TO %[1]s",
	} {
		must(t, execOn(ctx, fmt.Sprintf(s, e.name)))
	}
	config := server.Config(e.name)
	config.ClientFoundRows, config.User = true, e.name
	holder := New(openConfig(t, config), "orders")
	must(t, holder.Raise(ctx, claim(33)))
	for name, write := range writers {
		must(t, write(ctx, holder, claim(33), name))
	}
	for what, err := range map[string]error{
		"arm":   New(holder.db, "more").Arm(ctx, issuer),
		"adopt": holder.Adopt(ctx, issuer, "other"),
	} {
		if !isNumber(err, 1142) && !isNumber(err, 1143) {
			t.Errorf("%s: error %v, want that the right is missing", what, err)
		}
	}
	if _, err := holder.db.Exec("DELETE FROM leasehold_mark"); !isNumber(err, 1142) {
		t.Errorf("delete: error %v, want that the right is missing", err)
	}
}

// TestConcurrentRaises: of claims that raise at the same moment, in any order,
// the greatest has the mark in the end, and every other was refused or overtaken.
func TestConcurrentRaises(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	const n = 12
	gate := e.raised(t, 1) // all of them wait for it
	tasks := make([]*task, n)
	for i, token := range rand.Perm(n) {
		tasks[i] = start(func() error {
			if err := e.guard.Raise(t.Context(), claim(int64(token+2))); err != nil {
				return err
			}
			m, err := e.guard.Read(t.Context())
			if err == nil && m.Token < int64(token+2) {
				err = fmt.Errorf("the mark is %v after token %d had raised", m, token+2)
			}
			return err
		})
	}
	e.waitBlocked(t, n, nil)
	must(t, gate.Commit())
	for _, tk := range tasks {
		if err := tk.wait(t); err != nil {
			wantClass(t, err, fencing.ErrFenced)
		}
	}
	e.wantMark(t, fencing.Mark(claim(n+1)))
}
