// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
)

// Proxy passes connections on to a store, and makes faults between requests and
// replies. It knows nothing of the protocol: a request is whatever the client
// sends on a connection until the server sends something.
type Proxy struct {
	Trigger

	network, address string
	listener         net.Listener

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool
	wg     sync.WaitGroup
}

// NewProxy starts a proxy in front of a store at "host:port" or at the path of
// a Unix socket. It ends with the test.
func NewProxy(t testing.TB, store string) *Proxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{network: "tcp", address: store, listener: l, conns: map[net.Conn]bool{}}
	if strings.HasPrefix(store, "/") {
		p.network = "unix"
	}
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Addr is where the proxy listens, "host:port".
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.Disarm()
	p.mu.Lock()
	p.closed = true
	for conn := range p.conns {
		_ = conn.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(conn) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial(p.network, p.address)
	if err != nil {
		_ = client.Close()
		return
	}
	if !p.add(client, server) {
		return
	}
	l := &link{p: p, client: client, server: server, idle: true}
	p.wg.Go(l.replies)
	l.requests()
	p.remove(client, server)
}

// add keeps the connections for close; it is false if that has happened.
func (p *Proxy) add(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		if p.closed {
			_ = conn.Close()
			continue
		}
		p.conns[conn] = true
	}
	return !p.closed
}

func (p *Proxy) remove(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		delete(p.conns, conn)
	}
}

// link is one connection through the proxy.
type link struct {
	p              *Proxy
	client, server net.Conn

	mu   sync.Mutex
	idle bool // the server was the last to send
	lose bool // the next reply
}

var errBroken = errors.New("broken by the proxy")

// requests passes on what the client sends.
func (l *link) requests() {
	copyChunks(l.client, l.server, func() error {
		l.mu.Lock()
		first := l.idle
		l.idle = false
		l.mu.Unlock()
		if !first {
			return nil
		}
		switch fault, happens := l.p.request(); {
		case !happens:
			return nil
		case fault == LoseReply:
			l.mu.Lock()
			defer l.mu.Unlock()
			l.lose = true
			return nil
		default:
			return errBroken
		}
	})
}

// replies passes on what the server sends.
func (l *link) replies() {
	copyChunks(l.server, l.client, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.idle = true
		if l.lose {
			return errBroken
		}
		return nil
	})
}

// copyChunks asks before each chunk whether to pass it on, and closes both
// sides at the end.
func copyChunks(from, to net.Conn, before func() error) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if before() != nil {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
