// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"leasehold.dev/fencing"
)

// memory is a store with resources by name, in this process.
type memory struct {
	mu        sync.Mutex
	resources map[string]*resource
}

func (m *memory) get(name string) *resource {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.resources[name] == nil {
		m.resources[name] = &resource{former: map[string]int64{}}
	}
	return m.resources[name]
}

// resource has a lock for the mark, which writers share, and one for the data.
type resource struct {
	markLock, dataLock sync.RWMutex
	waiting            atomic.Int64

	mu      sync.Mutex // for the fields below, never held while waiting
	mark    fencing.Mark
	former  map[string]int64
	journal []Entry
}

func (r *resource) await(lock func()) {
	r.waiting.Add(1)
	lock()
	r.waiting.Add(-1)
}

func (r *resource) read() (fencing.Mark, []Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mark, slices.Clone(r.journal)
}

func (r *resource) set(edit func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	edit()
}

// client is a Target, sound unless it has a flaw.
type client struct {
	*resource
	name  string
	pause func()
	flaw  flaw
	wire  *wire // how Raise and Append reach the store, if not directly

	cached []Entry // by flaw staleRead
	last   fencing.Claim
}

func (c *client) Arm(_ context.Context, issuer string) error {
	if err := fencing.ValidateIssuer(issuer); err != nil {
		return err
	}
	c.markLock.Lock()
	defer c.markLock.Unlock()
	mark, _ := c.read()
	switch mark.Issuer {
	case "":
		c.set(func() { c.mark = fencing.Mark{Issuer: issuer} })
	case issuer:
	default:
		return &fencing.ForeignError{Newest: mark}
	}
	return nil
}

func (c *client) Adopt(_ context.Context, from, to string) error {
	c.markLock.Lock()
	defer c.markLock.Unlock()
	mark, _ := c.read()
	switch mark.Issuer {
	case "":
		return &fencing.NotArmedError{}
	case to:
	case from:
		c.set(func() {
			c.former[from] = mark.Token
			c.mark = fencing.Mark{Issuer: to, Token: c.former[to]}
			if c.flaw == forgetsFormer {
				c.mark.Token = 0
			}
		})
	default:
		return &fencing.ForeignError{Newest: mark}
	}
	return nil
}

func (c *client) Read(context.Context) (fencing.Mark, error) {
	mark, _ := c.read()
	if !mark.Armed() {
		return mark, &fencing.NotArmedError{}
	}
	return mark, nil
}

func (c *client) Journal(context.Context) ([]Entry, error) {
	_, journal := c.read()
	if c.flaw != staleRead {
		return journal, nil
	}
	if c.cached == nil {
		c.cached = journal
	}
	return c.cached, nil
}

func (c *client) Raise(ctx context.Context, claim fencing.Claim) error {
	if c.wire != nil {
		err := c.wire.call("Raise", c, claim, "")
		if errors.Is(err, errLost) && c.flaw != raiseUnknown {
			return &fencing.RetryError{Mine: claim, Err: err}
		}
		return err
	}
	return c.raise(ctx, claim)
}

func (c *client) raise(_ context.Context, claim fencing.Claim) error {
	if c.flaw != raiseUnlocked {
		c.await(c.markLock.Lock)
		defer c.markLock.Unlock()
	}
	mark, _ := c.read()
	err := c.decide(fencing.DecideRaise, mark, claim)
	if c.flaw == raiseUnlocked {
		c.pause()
	}
	if err == nil {
		c.set(func() { c.mark = fencing.Mark(claim) })
	}
	return err
}

func (c *client) Append(ctx context.Context, claim fencing.Claim, nonce string) error {
	if c.wire == nil || c.flaw == checkThenWrite { // which has its own way below
		return c.append(ctx, claim, nonce)
	}
	err := c.wire.call("Append", c, claim, nonce)
	switch {
	case errors.Is(err, errLost) && c.flaw == lostIsRetry:
		return &fencing.RetryError{Mine: claim, Err: err}
	case errors.Is(err, errLost) && c.flaw == lostIsRepeated:
		return c.wire.call("Append", c, claim, nonce)
	case errors.Is(err, errLost):
		return &fencing.UnknownError{Mine: claim, Err: err}
	}
	return err
}

func (c *client) append(ctx context.Context, claim fencing.Claim, nonce string) error {
	tx, err := c.Begin(ctx, claim, nonce)
	if err != nil {
		return err
	}
	c.pause()
	return tx.Commit(ctx)
}

// open is a transaction that shares the mark's lock.
type open struct {
	c      *client
	entry  Entry
	shares bool
}

func (c *client) Begin(_ context.Context, claim fencing.Claim, nonce string) (Transaction, error) {
	c.await(c.markLock.RLock)
	mark, _ := c.read()
	err := c.decide(fencing.DecideWrite, mark, claim)
	if c.flaw == remembers && c.last == claim {
		err = nil // "it was accepted a moment ago"
	}
	if err != nil {
		c.markLock.RUnlock()
		return nil, err
	}
	c.last = claim
	tx := &open{c: c, entry: Entry{claim.Token, claim.Holder, nonce}, shares: c.flaw != checkThenWrite}
	if !tx.shares {
		c.markLock.RUnlock()
	}
	return tx, nil
}

func (tx *open) Commit(context.Context) error {
	if tx.shares {
		defer tx.c.markLock.RUnlock()
	}
	tx.c.await(tx.c.dataLock.Lock)
	defer tx.c.dataLock.Unlock()
	tx.c.set(func() { tx.c.journal = append(tx.c.journal, tx.entry) })
	return nil
}

func (c *client) Waiting(context.Context) (int, error) { return int(c.waiting.Load()), nil }

func (c *client) Lock(context.Context) (func(context.Context) error, error) {
	c.dataLock.Lock()
	return func(context.Context) error { c.dataLock.Unlock(); return nil }, nil
}

func (c *client) DropMark(context.Context) error {
	c.set(func() { c.mark = fencing.Mark{} })
	return nil
}

func (c *client) Snapshot(context.Context) (func(context.Context) error, error) {
	mark, journal := c.read()
	former := maps.Clone(c.former)
	return func(context.Context) error {
		c.set(func() { c.mark, c.journal, c.former = mark, journal, former })
		return nil
	}, nil
}

func (c *client) Remove(_ context.Context, claim fencing.Claim) error {
	mark, _ := c.read()
	if err := c.decide(fencing.DecideWrite, mark, claim); err != nil {
		return err
	}
	c.set(func() {
		c.journal = nil
		if c.flaw == markWithData {
			c.mark = fencing.Mark{Issuer: mark.Issuer}
		}
	})
	return nil
}

func (c *client) AppendBare(_ context.Context, nonce string) error {
	if c.flaw == acceptsBare {
		c.set(func() { c.journal = append(c.journal, Entry{Nonce: nonce}) })
		return nil
	}
	return fencing.ErrInvalidClaim
}

// opener opens clients with a flaw, over a connection if the suite has a store.
func (m *memory) opener(f flaw) Opener {
	return func(t *testing.T, r Resource) Target {
		c := &client{resource: m.get(r.Name), name: r.Name, pause: r.Pause, flaw: f}
		if r.Addr != "" {
			c.wire = &wire{addr: r.Addr}
			t.Cleanup(func() {
				if c.wire.conn != nil {
					_ = c.wire.conn.Close()
				}
			})
		}
		return c
	}
}
