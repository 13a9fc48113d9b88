// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold.dev/fencing"
)

var (
	_ DB = (*pgxpool.Pool)(nil)
	_ DB = (*pgx.Conn)(nil)
	_ DB = (pgx.Tx)(nil)
)

const setValue = "UPDATE register SET value = $1 WHERE id = 1"

// writers are the two shapes of a guarded write, for tests of what they share.
var writers = map[string]func(t *testing.T, g *Guard, c fencing.Claim, value string) error{
	"Exec": func(t *testing.T, g *Guard, c fencing.Claim, value string) error {
		rows, err := g.Exec(t.Context(), c, setValue, value)
		if err == nil && rows != 1 {
			t.Errorf("%d rows affected, want 1", rows)
		}
		return err
	},
	"Tx": func(t *testing.T, g *Guard, c fencing.Claim, value string) error {
		return g.Tx(t.Context(), c, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), setValue, value)
			return err
		})
	},
}

// TestAgainstTheRule puts the mark in many states and compares what the
// database does to each claim with fencing.DecideRaise and DecideWrite.
func TestAgainstTheRule(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	marks := []fencing.Mark{
		{},
		{Issuer: issuer},
		{Issuer: issuer, Token: 34, Holder: "b"},
		{Issuer: issuer, Token: 34}, // adopted back
		{Issuer: issuer, Token: fencing.MaxToken - 1, Holder: "b"},
	}
	claims := []fencing.Claim{
		{Issuer: issuer, Token: 1, Holder: "a"},
		{Issuer: issuer, Token: 33, Holder: "b"},
		{Issuer: issuer, Token: 34, Holder: "b"},
		{Issuer: issuer, Token: 34, Holder: "a"},
		{Issuer: issuer, Token: 35, Holder: "a"},
		{Issuer: issuer, Token: 35, Holder: "b"}, // the same pod, granted again
		{Issuer: "other", Token: 34, Holder: "b"},
		{Issuer: "other", Token: 99, Holder: "b"},
		{Issuer: issuer, Token: fencing.MaxToken, Holder: "a"},
		{Issuer: issuer, Token: fencing.MaxToken + 1, Holder: "a"},
		{Issuer: issuer, Token: 0, Holder: "a"},
		{Issuer: issuer, Token: 0},
		{Issuer: issuer, Token: 34},
	}
	for _, m := range marks {
		for _, c := range claims {
			e.setMark(t, m)
			wantSame(t, m, c, "raise", e.guard.Raise(t.Context(), c), fencing.DecideRaise(m, c))
			for name, write := range writers {
				e.setMark(t, m)
				err := write(t, e.guard, c, "x")
				wantSame(t, m, c, name, err, fencing.DecideWrite(m, c))
			}
		}
	}
}

// setMark puts a mark where no method would; the zero Mark removes it.
func (e *env) setMark(t *testing.T, m fencing.Mark) {
	t.Helper()
	_, err := e.pool.Exec(t.Context(), "DELETE FROM leasehold.mark")
	must(t, err)
	if m.Armed() {
		_, err = e.pool.Exec(t.Context(), "INSERT INTO leasehold.mark VALUES ('orders', $1, $2, $3)", m.Issuer, m.Token, m.Holder)
		must(t, err)
	}
}

func wantSame(t *testing.T, m fencing.Mark, c fencing.Claim, verb string, got, want error) {
	t.Helper()
	if want == nil || got == nil {
		if got != want {
			t.Errorf("%v, %v, %s: %v, want %v", m, c, verb, got, want)
		}
		return
	}
	if !strings.HasSuffix(got.Error(), want.Error()) || !strings.Contains(got.Error(), `"orders"`) {
		t.Errorf("%v, %v, %s: error %q, want the resource and %q", m, c, verb, got, want)
	}
	for _, class := range []error{
		fencing.ErrFenced, fencing.ErrNotRaised, fencing.ErrForeign, fencing.ErrNotArmed, fencing.ErrInvalidClaim, fencing.ErrRetry,
	} {
		if errors.Is(got, class) != errors.Is(want, class) {
			t.Errorf("%v, %v, %s: error %v, want the class of %v", m, c, verb, got, want)
		}
	}
}

func TestLife(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, step := range []struct {
		what string
		do   func() error
		want error
	}{
		{"write before the raise", func() error { return writers["Exec"](t, e.guard, claim(33), "33") }, fencing.ErrNotRaised},
		{"raise", func() error { return e.guard.Raise(t.Context(), claim(33)) }, nil},
		{"repeat the raise", func() error { return e.guard.Raise(t.Context(), claim(33)) }, nil},
		{"write", func() error { return writers["Exec"](t, e.guard, claim(33), "33") }, nil},
		{"write again", func() error { return writers["Tx"](t, e.guard, claim(33), "33 again") }, nil},
		{"successor raises", func() error { return e.guard.Raise(t.Context(), claim(34)) }, nil},
		{"stale write", func() error { return writers["Exec"](t, e.guard, claim(33), "stale") }, fencing.ErrFenced},
		{"stale transaction", func() error { return writers["Tx"](t, e.guard, claim(33), "stale") }, fencing.ErrFenced},
		{"stale raise", func() error { return e.guard.Raise(t.Context(), claim(33)) }, fencing.ErrFenced},
		{"successor writes", func() error { return writers["Tx"](t, e.guard, claim(34), "34") }, nil},
	} {
		if err := step.do(); !errors.Is(err, step.want) {
			t.Fatalf("%s: %v, want %v", step.what, err, step.want)
		}
	}
	e.wantValue(t, "34")
	e.wantMark(t, fencing.Mark(claim(34)))
}

func TestFencedNamesBothSides(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	must(t, e.guard.Raise(t.Context(), claim(34)))
	_, err := e.guard.Exec(t.Context(), claim(33), setValue, "x")
	fenced, ok := errors.AsType[*fencing.FencedError](err)
	want := &fencing.FencedError{Mine: claim(33), Newest: fencing.Mark(claim(34))}
	if !ok || !cmp.Equal(want, fenced) {
		t.Errorf("error %v (-want +got):\n%s", err, cmp.Diff(want, fenced))
	}

	// The lease is still ours, so the issuer's tokens went back.
	err = fencing.ConfirmBehind(t.Context(), err, func(context.Context) error { return nil })
	wantClass(t, err, fencing.ErrBehind)
}

func TestArm(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	other := New(e.pool, "invoices")
	_, err := other.Read(t.Context())
	wantClass(t, err, fencing.ErrNotArmed)

	must(t, other.Arm(t.Context(), issuer))
	must(t, other.Raise(t.Context(), claim(7)))
	must(t, other.Arm(t.Context(), issuer)) // again: the mark stays
	if m, err := other.Read(t.Context()); err != nil || m != fencing.Mark(claim(7)) {
		t.Errorf("Read = %v, %v; want the raised mark", m, err)
	}
	e.wantMark(t, fencing.Mark{Issuer: issuer}) // one resource says nothing of another

	err = other.Arm(t.Context(), "other")
	foreign, ok := errors.AsType[*fencing.ForeignError](err)
	if !ok || foreign.Newest != fencing.Mark(claim(7)) || foreign.Mine.Issuer != "other" {
		t.Errorf("Arm for another issuer: %v", err)
	}
	wantClass(t, other.Arm(t.Context(), ""), fencing.ErrInvalidClaim)
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := t.Context()
	must(t, e.guard.Raise(ctx, claim(40)))
	there := fencing.Claim{Issuer: "c2/shop/orders", Token: 3, Holder: "pod-3"}
	wantClass(t, e.guard.Raise(ctx, there), fencing.ErrForeign)
	wantClass(t, e.guard.Adopt(ctx, "c3", there.Issuer), fencing.ErrForeign)
	wantClass(t, New(e.pool, "none").Adopt(ctx, issuer, there.Issuer), fencing.ErrNotArmed)
	wantClass(t, e.guard.Adopt(ctx, issuer, ""), fencing.ErrInvalidClaim)

	must(t, e.guard.Adopt(ctx, issuer, there.Issuer))
	must(t, e.guard.Adopt(ctx, issuer, there.Issuer)) // again: nothing to do
	e.wantMark(t, fencing.Mark{Issuer: there.Issuer})
	wantClass(t, writers["Exec"](t, e.guard, claim(40), "old cluster"), fencing.ErrForeign)
	must(t, e.guard.Raise(ctx, there))
	must(t, writers["Exec"](t, e.guard, there, "new cluster"))

	// Back again: the first cluster's holders of before stay out.
	must(t, e.guard.Adopt(ctx, there.Issuer, issuer))
	for _, token := range []int64{39, 40} {
		wantClass(t, e.guard.Raise(ctx, claim(token)), fencing.ErrFenced)
		wantClass(t, writers["Tx"](t, e.guard, claim(token), "stale"), fencing.ErrFenced)
	}
	must(t, e.guard.Raise(ctx, claim(41)))
	wantClass(t, e.guard.Adopt(ctx, issuer, issuer), nil)
	e.wantMark(t, fencing.Mark(claim(41)))
	e.wantValue(t, "new cluster")
}

func TestRaiseMustBeAlone(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	tx := e.begin(t)
	for name, db := range map[string]DB{"transaction": tx, "its connection": tx.Conn()} {
		g := New(db, "orders")
		if err := g.Raise(t.Context(), claim(33)); !errors.Is(err, errNotAlone) {
			t.Errorf("Raise through a %s: %v", name, err)
		}
		if err := g.Adopt(t.Context(), issuer, "other"); !errors.Is(err, errNotAlone) {
			t.Errorf("Adopt through a %s: %v", name, err)
		}
	}
	e.wantMark(t, fencing.Mark{Issuer: issuer})
}
