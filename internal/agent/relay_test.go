// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent_test

import (
	"net"
	"sync"
	"testing"
)

// relay stands between an agent and the API server, and fails as networks do.
type relay struct {
	listener net.Listener
	target   string

	mu     sync.Mutex
	moved  *sync.Cond
	frozen bool
	refuse bool
	conns  map[net.Conn]bool
}

func newRelay(t *testing.T, target string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, target: target, conns: map[net.Conn]bool{}}
	r.moved = sync.NewCond(&r.mu)
	go r.accept()
	t.Cleanup(func() {
		_ = l.Close()
		r.set(false, true)
	})
	return r
}

func (r *relay) address() string { return r.listener.Addr().String() }

// freeze lets every byte hang, as a dead peer does; thaw lets them go on.
func (r *relay) freeze() { r.set(true, false) }
func (r *relay) thaw()   { r.set(false, false) }

// cut breaks all connections and refuses new ones, until thaw.
func (r *relay) cut() { r.set(false, true) }

func (r *relay) set(frozen, refuse bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen, r.refuse = frozen, refuse
	r.moved.Broadcast()
	if refuse {
		for c := range r.conns {
			_ = c.Close()
		}
	}
}

func (r *relay) accept() {
	for {
		near, err := r.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", r.target)
		if err != nil {
			panic("the API server is not where the test thinks: " + err.Error())
		}
		if !r.adopt(near, far) {
			_ = near.Close()
			_ = far.Close()
			continue
		}
		go r.pipe(near, far)
		go r.pipe(far, near)
	}
}

func (r *relay) adopt(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		r.conns[c] = true
	}
	return !r.refuse
}

func (r *relay) pipe(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 16<<10)
	for {
		n, err := from.Read(b)
		r.mu.Lock()
		for r.frozen {
			r.moved.Wait()
		}
		r.mu.Unlock()
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
