// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package httpfence

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"leasehold.dev/fencing"
	"leasehold.dev/fencing/fencetest"
)

func TestConformance(t *testing.T) {
	s := newService(t)
	fencetest.Run(t, fencetest.Suite{
		Adapter: "httpfence",
		Store:   s.addr,
		Open:    func(t *testing.T, r fencetest.Resource) fencetest.Target { return newTarget(t, s, r) },
		Without: map[string]string{
			fencetest.CaseTransaction: "a request is a transaction as a whole; its storage has a line of its own",
			fencetest.CaseRowLock:     "a matter of the storage behind the service, which has a line of its own",
			fencetest.CaseMarkLost:    "a matter of the storage behind the service, which has a line of its own",
			fencetest.CaseRestored:    "a matter of the storage behind the service, which has a line of its own",
		},
		Naive: []fencetest.Naive{
			{Name: "middleware that checks, then calls the handler", Open: via(s, "/checked/{client}"),
				CaughtBy: []string{fencetest.CaseFrozen, fencetest.CaseContended}},
			{Name: "highest token in the memory of each replica", Open: via(s, "/remembered/{client}"),
				CaughtBy: []string{fencetest.CaseFrozen, fencetest.CaseContended}},
			{Name: "If-Match alone", Open: via(s, "/matched/{length}"),
				CaughtBy: []string{fencetest.CaseFrozen, fencetest.CaseContended}},
			{Name: "lets requests without a claim pass", Open: via(s, "/lenient"), CaughtBy: []string{fencetest.CaseOmitted}},
		},
	})
}

// Remove implements fencetest.Remover.
func (tg target) Remove(ctx context.Context, c fencing.Claim) error {
	return tg.send(ctx, c, http.MethodDelete, "/journal")
}

// AppendBare implements fencetest.Bare.
func (tg target) AppendBare(ctx context.Context, nonce string) error {
	return tg.bare(ctx, "/journal?nonce="+nonce)
}

func (tg target) bare(ctx context.Context, path string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, tg.url+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return Error(resp)
}

// naive writes by another path of the service.
type naive struct {
	target
	path string
}

func via(s *service, path string) fencetest.Opener {
	return func(t *testing.T, r fencetest.Resource) fencetest.Target { return naive{newTarget(t, s, r), path} }
}

func (n naive) Append(ctx context.Context, c fencing.Claim, nonce string) error {
	if n.path != "/matched/{length}" {
		return n.send(ctx, c, http.MethodPost, n.to(0)+"?nonce="+nonce)
	}
	for {
		journal, err := n.Journal(ctx)
		if err != nil {
			return err
		}
		err = n.send(ctx, c, http.MethodPost, n.to(len(journal))+"?nonce="+nonce)
		if !errors.Is(err, fencing.ErrRetry) {
			return err
		}
	}
}

func (n naive) AppendBare(ctx context.Context, nonce string) error {
	return n.bare(ctx, n.to(0)+"?nonce="+nonce)
}

func (n naive) to(length int) string {
	switch n.path {
	case "/matched/{length}":
		return fmt.Sprintf("/matched/%d", length)
	case "/lenient":
		return n.path
	default:
		return n.path[:len(n.path)-len("{client}")] + n.id
	}
}
