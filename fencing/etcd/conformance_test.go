// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold.dev/fencing"
	"leasehold.dev/fencing/fencetest"
)

func TestConformance(t *testing.T) {
	fencetest.Run(t, fencetest.Suite{
		Adapter: "etcd", Store: server.Addr(),
		Without: map[string]string{
			fencetest.CaseTransaction: "a write is one request: there is no transaction to be left open",
			fencetest.CaseRowLock:     "transactions are applied one at a time: there is nothing to wait behind",
		},
		Open: func(t *testing.T, r fencetest.Resource) fencetest.Target { return newTarget(t, r) },
		Naive: []fencetest.Naive{
			{Name: "get, then put", CaughtBy: []string{fencetest.CaseFrozen, fencetest.CaseContended},
				Open: func(t *testing.T, r fencetest.Resource) fencetest.Target { return checksFirst{newTarget(t, r)} }},
			{Name: "tokens in plain decimal", CaughtBy: []string{fencetest.CaseNumbers},
				Open: func(t *testing.T, r fencetest.Resource) fencetest.Target { return plainDecimal{newTarget(t, r)} }},
			{Name: "a revision that is less", CaughtBy: []string{fencetest.CaseMarkLost},
				Open: func(t *testing.T, r fencetest.Resource) fencetest.Target { return lessThan{newTarget(t, r)} }},
		},
	})
}

// target is a journal of keys, in the order of the revisions that made them.
type target struct {
	*Guard
	name   string
	direct *clientv3.Client // past the proxy
	pause  func()
}

func newTarget(t *testing.T, r fencetest.Resource) target {
	t.Helper()
	return target{New(open(t, r.Addr), r.Name), r.Name, open(t, server.Addr()), r.Pause}
}

func (tg target) journal() string { return "journal/" + tg.name + "/" }

func (tg target) entry(c fencing.Claim, nonce string) clientv3.Op {
	return clientv3.OpPut(tg.journal()+nonce, fmt.Sprintf("%d %s", c.Token, c.Holder))
}

func (tg target) Append(ctx context.Context, c fencing.Claim, nonce string) error {
	_, err := tg.Write(ctx, c, tg.entry(c, nonce))
	return err
}

func (tg target) Journal(ctx context.Context) ([]fencetest.Entry, error) {
	resp, err := tg.direct.Get(ctx, tg.journal(), clientv3.WithPrefix(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		return nil, err
	}
	var journal []fencetest.Entry
	for _, kv := range resp.Kvs {
		token, holder, _ := strings.Cut(string(kv.Value), " ")
		n, err := strconv.ParseInt(token, 10, 64)
		if err != nil {
			return nil, err
		}
		journal = append(journal, fencetest.Entry{Token: n, Holder: holder, Nonce: strings.TrimPrefix(string(kv.Key), tg.journal())})
	}
	return journal, nil
}

// DropMark implements fencetest.MarkDropper.
func (tg target) DropMark(ctx context.Context) error {
	_, err := tg.direct.Delete(ctx, tg.markKey())
	return err
}

// Snapshot implements fencetest.Restorer. Entries that were added since are
// taken away again.
func (tg target) Snapshot(ctx context.Context) (func(context.Context) error, error) {
	mark, err := tg.direct.Get(ctx, tg.markKey())
	if err != nil {
		return nil, err
	}
	if len(mark.Kvs) == 0 {
		return nil, errors.New("there is no mark to remember")
	}
	before, err := tg.Journal(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, e := range before {
		known[e.Nonce] = true
	}
	return func(ctx context.Context) error {
		ops := []clientv3.Op{clientv3.OpPut(tg.markKey(), string(mark.Kvs[0].Value))}
		after, err := tg.Journal(ctx)
		if err != nil {
			return err
		}
		for _, e := range after {
			if !known[e.Nonce] {
				ops = append(ops, clientv3.OpDelete(tg.journal()+e.Nonce))
			}
		}
		_, err = tg.direct.Txn(ctx).Then(ops...).Commit()
		return err
	}, nil
}

// Remove implements fencetest.Remover.
func (tg target) Remove(ctx context.Context, c fencing.Claim) error {
	_, err := tg.Write(ctx, c, clientv3.OpDelete(tg.journal(), clientv3.WithPrefix()))
	return err
}

// checksFirst reads the mark and then writes.
type checksFirst struct{ target }

func (n checksFirst) Append(ctx context.Context, c fencing.Claim, nonce string) error {
	m, err := n.Read(ctx)
	if err != nil {
		return err
	}
	if err := fencing.DecideWrite(m, c); err != nil {
		return err
	}
	n.pause()
	_, err = n.kv.Do(ctx, n.entry(c, nonce))
	return classify(ctx, err, c, true)
}

// plainDecimal compares tokens as they are printed: as bytes, "9" is above "10".
type plainDecimal struct{ target }

func (n plainDecimal) Raise(ctx context.Context, c fencing.Claim) error {
	current, err := n.state(ctx, "")
	if err != nil {
		return classify(ctx, err, c, false)
	}
	if strconv.FormatInt(current.mark.Token, 10) > strconv.FormatInt(c.Token, 10) {
		return &fencing.FencedError{Mine: c, Newest: current.mark}
	}
	_, err = n.kv.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(n.markKey()), "=", current.mod)).
		Then(clientv3.OpPut(n.markKey(), encode(fencing.Mark(c)))).Commit()
	return classify(ctx, err, c, false)
}

// lessThan takes a mark that has not changed since it was read for one whose
// revision is below the next: that of a mark that is missing is 0.
type lessThan struct{ target }

func (n lessThan) Append(ctx context.Context, c fencing.Claim, nonce string) error {
	current, err := n.state(ctx, "")
	if err == nil {
		if err := fencing.DecideWrite(current.mark, c); err != nil {
			return err
		}
	} else if !errors.Is(err, fencing.ErrNotArmed) {
		return classify(ctx, err, c, false)
	}
	resp, err := n.kv.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(n.markKey()), "<", current.mod+1)).
		Then(n.entry(c, nonce)).Commit()
	if err == nil && !resp.Succeeded {
		return &fencing.RetryError{Mine: c, Err: errors.New("the mark has changed")}
	}
	return classify(ctx, err, c, true)
}
