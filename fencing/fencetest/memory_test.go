// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/rpc"
	"slices"
	"strconv"
	"strings"
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

// flaw is one mistake.
type flaw string

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

// wire calls the store over a connection, which it opens anew when it broke.
type wire struct {
	addr string
	conn *rpc.Client
}

var errLost = errors.New("connection lost")

// Call is a request, and Answer its reply: the class and the mark of a refusal.
type (
	Call struct {
		Resource string
		Flaw     flaw
		Claim    fencing.Claim
		Nonce    string
	}
	Answer struct {
		Class  string
		Newest fencing.Mark
	}
)

func (w *wire) call(method string, c *client, claim fencing.Claim, nonce string) error {
	if w.conn == nil {
		conn, err := rpc.Dial("tcp", w.addr)
		if err != nil {
			return &fencing.RetryError{Mine: claim, Err: err}
		}
		w.conn = conn
	}
	var a Answer
	if err := w.conn.Call("Server."+method, Call{c.name, c.flaw, claim, nonce}, &a); err != nil {
		_ = w.conn.Close()
		w.conn = nil
		return errors.Join(errLost, err)
	}
	return a.error(claim)
}

// Server is the other end.
type Server struct{ memory *memory }

func (s *Server) Raise(in Call, out *Answer) error {
	return out.set(s.client(in).raise(context.Background(), in.Claim))
}

func (s *Server) Append(in Call, out *Answer) error {
	return out.set(s.client(in).append(context.Background(), in.Claim, in.Nonce))
}

func (s *Server) client(in Call) *client {
	return &client{resource: s.memory.get(in.Resource), pause: func() {}, flaw: in.Flaw}
}

func (a *Answer) set(err error) error {
	for _, class := range []error{fencing.ErrNotArmed, fencing.ErrForeign, fencing.ErrFenced, fencing.ErrNotRaised, fencing.ErrInvalidClaim} {
		if errors.Is(err, class) {
			a.Class = class.Error()
		}
	}
	if fenced, ok := errors.AsType[*fencing.FencedError](err); ok {
		a.Newest = fenced.Newest
	}
	return nil
}

func (a *Answer) error(mine fencing.Claim) error {
	switch a.Class {
	case fencing.ErrNotArmed.Error():
		return &fencing.NotArmedError{Mine: mine}
	case fencing.ErrForeign.Error():
		return &fencing.ForeignError{Mine: mine}
	case fencing.ErrFenced.Error():
		return &fencing.FencedError{Mine: mine, Newest: a.Newest}
	case fencing.ErrNotRaised.Error():
		return &fencing.NotRaisedError{Mine: mine}
	case fencing.ErrInvalidClaim.Error():
		return fencing.ErrInvalidClaim
	}
	return nil
}

// serve serves a store until the test ends.
func serve(t *testing.T, m *memory) (addr string) {
	t.Helper()
	s := rpc.NewServer()
	if err := s.Register(&Server{m}); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { s.ServeConn(conn) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return l.Addr().String()
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

// decide is the rule, or a mistake.
func (c *client) decide(rule func(fencing.Mark, fencing.Claim) error, m fencing.Mark, cl fencing.Claim) error {
	err := rule(m, cl)
	fenced, _ := errors.AsType[*fencing.FencedError](err)
	switch {
	case c.flaw == missingIsZero && errors.Is(err, fencing.ErrNotArmed),
		c.flaw == aboveIsGood && errors.Is(err, fencing.ErrNotRaised),
		c.flaw == equalIsGood && fenced != nil && fenced.Collision(),
		c.flaw == anyIssuer && errors.Is(err, fencing.ErrForeign),
		c.flaw == unchecked && errors.Is(err, fencing.ErrInvalidClaim),
		c.flaw == asFloat && fenced != nil && float64(cl.Token) >= float64(m.Token) && cl.Holder == m.Holder,
		c.flaw == asText && fenced != nil && strconv.FormatInt(cl.Token, 10) >= strconv.FormatInt(m.Token, 10),
		c.flaw == splitNames && fenced != nil && strings.Split(cl.Holder, "/")[0] == strings.Split(m.Holder, "/")[0] && m.Token == cl.Token:
		return nil
	case c.flaw == saysTooLittle && fenced != nil:
		return &fencing.FencedError{Mine: cl}
	}
	return err
}
