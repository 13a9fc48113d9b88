// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"context"
	"errors"
	"net"
	"net/rpc"
	"sync"
	"testing"

	"leasehold.dev/fencing"
)

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
