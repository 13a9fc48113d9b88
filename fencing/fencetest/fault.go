// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencetest

import "sync"

// Fault is what a Proxy does to one request, which is all that a client sends
// on a connection until the server answers.
type Fault int

const (
	// Freeze holds the request back until Thaw: the client was stopped just
	// before it, or the network is slow.
	Freeze Fault = iota
	// LoseRequest breaks the connection instead of passing the request on.
	LoseRequest
	// LoseReply passes the request on, and breaks the connection instead of
	// passing on the reply.
	LoseReply
)

// String names the fault.
func (f Fault) String() string {
	return [...]string{"freeze", "lose the request", "lose the reply"}[f]
}

// Trigger makes one fault at one of the requests, or calls of Resource.Pause,
// that come after it was armed.
type Trigger struct {
	mu     sync.Mutex
	armed  bool
	fault  Fault
	left   int // requests until the fault
	hold   func(thawed <-chan struct{})
	hit    chan struct{}
	thawed chan struct{}
}

// Arm makes the fault happen at the nth request from now, counted from 1, in
// place of an earlier one that has not happened. The channel is closed when it
// happens.
func (g *Trigger) Arm(f Fault, n int) (hit <-chan struct{}) {
	return g.arm(f, n, nil)
}

// arm takes also what to do while the request is held; nil waits for Thaw.
func (g *Trigger) arm(f Fault, n int, hold func(thawed <-chan struct{})) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed, g.fault, g.left, g.hold = true, f, n, hold
	g.hit, g.thawed = make(chan struct{}), make(chan struct{})
	return g.hit
}

// Disarm takes back a fault that has not happened, and thaws what is frozen. It
// tells whether the fault has happened.
func (g *Trigger) Disarm() (happened bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hit == nil {
		return false
	}
	happened, g.armed = !g.armed, false
	select {
	case <-g.thawed:
	default:
		close(g.thawed)
	}
	return happened
}

// request counts one. It holds a frozen one, and tells of any other fault that
// is to happen to it.
func (g *Trigger) request() (fault Fault, happens bool) {
	g.mu.Lock()
	if !g.armed {
		g.mu.Unlock()
		return 0, false
	}
	if g.left--; g.left > 0 {
		g.mu.Unlock()
		return 0, false
	}
	g.armed = false
	fault, hold, thawed := g.fault, g.hold, g.thawed
	close(g.hit)
	g.mu.Unlock()
	if fault != Freeze {
		return fault, true
	}
	if hold == nil {
		<-thawed
	} else {
		hold(thawed)
	}
	return 0, false
}

// pause is Resource.Pause: a place where only a freeze can happen.
func (g *Trigger) pause() { _, _ = g.request() }
