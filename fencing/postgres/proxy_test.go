// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package postgres

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// proxy stands between clients and the server, and breaks a connection at a
// chosen message of PostgreSQL's protocol.
type proxy struct {
	addr *net.TCPAddr

	mu  sync.Mutex
	cut *cut
}

// cut is where to break: before the first message from that side that matches
// is passed on.
type cut struct {
	fromServer bool
	matches    func(kind byte, body []byte) bool
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxy{addr: l.Addr().(*net.TCPAddr)}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // closed
			}
			wg.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return p
}

// pool opens a pool that reaches the database through the proxy. It keeps one
// connection, so that the messages come in a known order.
func (p *proxy) pool(t *testing.T, e *env) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig("sslmode=disable user=postgres")
	must(t, err)
	config.ConnConfig.Database = e.name
	config.ConnConfig.Host, config.ConnConfig.Port = p.addr.IP.String(), uint16(p.addr.Port) //nolint:gosec // A port.
	config.ConnConfig.Fallbacks = nil
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// arm sets the next cut.
func (p *proxy) arm(c cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = &c
}

// done tells whether the cut was made.
func (p *proxy) done() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut == nil
}

// breaks tells whether to break here, once.
func (p *proxy) breaks(fromServer bool, kind byte, body []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut == nil || p.cut.fromServer != fromServer || !p.cut.matches(kind, body) {
		return false
	}
	p.cut = nil
	return true
}

func (p *proxy) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	backend, err := net.Dial("unix", server.SocketPath())
	if err != nil {
		return
	}
	defer func() { _ = backend.Close() }()
	// The first message of a client has no type.
	if _, err := pass(client, backend, nil); err != nil {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { p.relay(client, backend, false) })
	wg.Go(func() { p.relay(backend, client, true) })
	wg.Wait()
}

// relay passes messages on until one side closes or the cut is reached, and
// then closes both.
func (p *proxy) relay(from, to net.Conn, fromServer bool) {
	defer func() { _, _ = from.Close(), to.Close() }()
	for {
		kind := make([]byte, 1)
		if _, err := io.ReadFull(from, kind); err != nil {
			return
		}
		stop := func(body []byte) bool { return p.breaks(fromServer, kind[0], body) }
		if stopped, err := pass(from, prefixed{to, kind}, stop); stopped || err != nil {
			return
		}
	}
}

// pass copies one message without its type: a length that counts itself, and a
// body.
func pass(from io.Reader, to io.Writer, stop func([]byte) bool) (stopped bool, err error) {
	var length [4]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return false, err
	}
	body := make([]byte, binary.BigEndian.Uint32(length[:])-4)
	if _, err := io.ReadFull(from, body); err != nil {
		return false, err
	}
	if stop != nil && stop(body) {
		return true, nil
	}
	_, err = to.Write(append(length[:], body...))
	return false, err
}

// prefixed writes a message's type before it.
type prefixed struct {
	io.Writer
	kind []byte
}

func (w prefixed) Write(b []byte) (int, error) { return w.Writer.Write(append(w.kind, b...)) }

// Cuts, by the messages' types in PostgreSQL's protocol.

// lostRequest breaks before a statement with parameters reaches the server.
func lostRequest() cut {
	return cut{false, func(kind byte, _ []byte) bool { return kind == 'B' }} // Bind
}

// lostText breaks before a statement without parameters reaches the server.
func lostText(sql string) cut {
	return cut{false, func(kind byte, body []byte) bool { return kind == 'Q' && bytes.HasPrefix(body, []byte(sql)) }} // Query
}

// lostRow breaks before the first row of a result.
func lostRow() cut {
	return cut{true, func(kind byte, _ []byte) bool { return kind == 'D' }} // DataRow
}

// lostTag breaks before the word that a statement is complete.
func lostTag(tag string) cut {
	return cut{true, func(kind byte, body []byte) bool { return kind == 'C' && bytes.HasPrefix(body, []byte(tag)) }} // CommandComplete
}

// lostReady breaks after a statement's whole result, but before the server is
// ready again. It commits in between.
func lostReady(tag string) cut {
	complete := lostTag(tag)
	seen := false
	return cut{true, func(kind byte, body []byte) bool {
		seen = seen || complete.matches(kind, body)
		return seen && kind == 'Z' // ReadyForQuery
	}}
}
