// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package refusal_test

import (
	"errors"
	"fmt"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/internal/refusal"
)

func forbidden(text string) error {
	return fmt.Errorf("update lease: %w", apierrors.NewForbidden(coordinationv1.Resource("leases"), "x", errors.New(text)))
}

// A refusal stays until a write passes; no other answer says anything of it.
func TestBoard(t *testing.T) {
	t.Parallel()
	b := refusal.NewBoard()
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x"}}
	key := types.NamespacedName{Namespace: "ns", Name: "x"}
	for i, step := range []struct {
		err     error
		changed bool
		want    string
	}{
		{nil, false, ""},
		{errors.New("connection refused"), false, ""},
		{forbidden("a"), true, forbidden("a").Error()},
		{forbidden("a"), false, forbidden("a").Error()},
		{errors.New("connection refused"), false, forbidden("a").Error()},
		{apierrors.NewConflict(coordinationv1.Resource("leases"), "x", errors.New("older")), false, forbidden("a").Error()},
		{forbidden("b"), true, forbidden("b").Error()},
		{forbidden("read tcp 10.0.0.1:41234"), true, forbidden("read tcp 10.0.0.1:41234").Error()},
		{forbidden("read tcp 10.0.0.1:41236"), false, forbidden("read tcp 10.0.0.1:41234").Error()},
		{nil, true, ""},
	} {
		if got := b.Note(l, step.err); got != step.changed {
			t.Errorf("step %d: changed is %t", i, got)
		}
		if got := b.Of(key); got != step.want {
			t.Errorf("step %d: it says %q, want %q", i, got, step.want)
		}
		if got := len(b.Changes()) > 0; got != step.changed {
			t.Errorf("step %d: a change is delivered: %t", i, got)
		}
		if step.changed {
			if e := <-b.Changes(); e.Object != l {
				t.Errorf("step %d: the change is of %v", i, e.Object)
			}
		}
	}
	b.Note(l, forbidden("a"))
	b.Forget(key)
	if got := b.Of(key); got != "" {
		t.Errorf("it still says %q of what is gone", got)
	}
}

// Nobody need follow, and nobody need have a board.
func TestBoardWithoutFollowers(t *testing.T) {
	t.Parallel()
	var zero refusal.Board
	var none *refusal.Board
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	key := types.NamespacedName{Name: "x"}
	if !zero.Note(l, forbidden("a")) || zero.Of(key) == "" {
		t.Error("the zero board remembers nothing")
	}
	none.Forget(key)
	if none.Note(l, forbidden("a")) || none.Of(key) != "" {
		t.Error("no board remembers something")
	}
}
