// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leasehold.dev/fencing"
)

const (
	// patience bounds one case, and so every wait in it.
	patience = 5 * time.Minute
	// pollEvery is how often a Waiter is asked.
	pollEvery = 2 * time.Millisecond
	// issuer is that of most claims.
	issuer = "fencetest/a/lease"
)

// resources numbers them, so that no two cases of a process share one.
var resources atomic.Int64

// trial is one case on one adapter or variant. What the case finds goes to
// faults and not to t, since on a naive variant it is what is wanted; what
// keeps it from being tried at all goes to t.
type trial struct {
	t      *testing.T
	ctx    context.Context
	suite  *Suite
	open   Opener
	naive  bool // a variant that is meant to fail
	faults []string
	tried  int    // faults that a sweep made
	note   string // what the case did, for the table of results
}

// abandoned is the panic that ends a case early.
type abandoned struct{}

func newTrial(t *testing.T, s *Suite, open Opener) *trial {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return &trial{t: t, ctx: ctx, suite: s, open: open}
}

func (c *trial) run(k *kase) {
	defer func() {
		if p := recover(); p != nil && p != (abandoned{}) {
			c.t.Fatalf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	k.run(c)
}

// errorf notes what the adapter did wrong.
func (c *trial) errorf(format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

// fatalf notes it and ends the case.
func (c *trial) fatalf(format string, args ...any) {
	c.errorf(format, args...)
	panic(abandoned{})
}

// must ends the case as one that could not be tried.
func (c *trial) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// need returns target as a T, without which the case cannot be tried.
func need[T any](c *trial, target Target) T {
	c.t.Helper()
	capable, ok := target.(T)
	if !ok {
		c.t.Fatalf("the target is no %T: implement it, or give the reason in Suite.Without", (*T)(nil))
	}
	return capable
}

// resource returns a new one.
func (c *trial) resource() Resource {
	return Resource{Name: fmt.Sprintf("r%d_%d", c.suite.Seed%1_000_000, resources.Add(1)), Addr: c.suite.Store, Pause: func() {}}
}

// client opens one that nothing disturbs.
func (c *trial) client(r Resource) Target {
	c.t.Helper()
	return c.open(c.t, r)
}

// pair opens two clients of a new resource that is armed.
func (c *trial) pair() (older, newer Target) {
	c.t.Helper()
	r := c.resource()
	older, newer = c.client(r), c.client(r)
	c.must(older.Arm(c.ctx, issuer))
	return older, newer
}

// claim is one of the issuer; the holder follows from the token.
func claim(token int64) fencing.Claim {
	return fencing.Claim{Issuer: issuer, Token: token, Holder: fmt.Sprintf("pod-%d", token)}
}

// accept does something, again while the store asks for it, and it must succeed.
func (c *trial) accept(what string, do func() error) {
	c.t.Helper()
	if err := retry(c.ctx, do); err != nil {
		c.fatalf("%s: %v, want it accepted", what, err)
	}
}

func (c *trial) raise(target Target, claim fencing.Claim) {
	c.t.Helper()
	c.accept(fmt.Sprintf("raise to %v", claim), func() error { return target.Raise(c.ctx, claim) })
}

func (c *trial) append(target Target, claim fencing.Claim, nonce string) {
	c.t.Helper()
	c.accept(fmt.Sprintf("write %s by %v", nonce, claim), func() error { return target.Append(c.ctx, claim, nonce) })
}

// refuse expects that do is refused with one class. A store may ask for
// another try first.
func (c *trial) refuse(what string, class error, do func() error) {
	c.t.Helper()
	_ = c.refusal(what, class, do)
}

// refusal returns it.
func (c *trial) refusal(what string, class error, do func() error) error {
	c.t.Helper()
	err := retry(c.ctx, do)
	if !errors.Is(err, class) {
		c.errorf("%s: %v, want %q", what, err, class)
	}
	return err
}

func retry(ctx context.Context, do func() error) error {
	err := do()
	for errors.Is(err, fencing.ErrRetry) && ctx.Err() == nil {
		err = do()
	}
	return err
}

// wantMark expects the mark.
func (c *trial) wantMark(target Target, want fencing.Mark) {
	c.t.Helper()
	if got, err := target.Read(c.ctx); err != nil || got != want {
		c.errorf("the mark is %v (error %v), want %v", got, err, want)
	}
}

// journal reads it.
func (c *trial) journal(target Target) []Entry {
	c.t.Helper()
	journal, err := target.Journal(c.ctx)
	c.must(err)
	return journal
}

// wantJournal expects these nonces in this order.
func (c *trial) wantJournal(target Target, want ...string) {
	c.t.Helper()
	var got []string
	for _, e := range c.journal(target) {
		got = append(got, e.Nonce)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		c.errorf("the journal has %q, want %q", got, want)
	}
}

// judge compares the journal and the mark with what the holders know.
func (c *trial) judge(target Target, h History) {
	c.t.Helper()
	mark, err := target.Read(c.ctx)
	c.must(err)
	c.faults = append(c.faults, Judge(c.journal(target), mark, h)...)
}

// task is something that runs beside the case.
type task struct {
	done chan struct{}
	err  error // once done is closed
}

func start(f func() error) *task {
	tk := &task{done: make(chan struct{})}
	go func() {
		defer close(tk.done)
		tk.err = f()
	}()
	return tk
}

// wait returns the task's error. One that never ends is a case that hangs, and
// not a refusal.
func (c *trial) wait(tk *task) error {
	c.t.Helper()
	select {
	case <-tk.done:
		return tk.err
	case <-c.ctx.Done():
		c.t.Fatalf("not done within %v", patience)
		return nil
	}
}

// takeover is a new holder's raise, read and write "new", beside what the old
// one does.
type takeover struct {
	*task
	claim   fencing.Claim
	retried chan struct{} // closed once the store has asked for another try
	seen    []Entry       // once done
}

func (c *trial) takeOver(target Target, claim fencing.Claim) *takeover {
	to := &takeover{claim: claim, retried: make(chan struct{})}
	var once sync.Once
	again := func(do func() error) error {
		return retry(c.ctx, func() error {
			err := do()
			if errors.Is(err, fencing.ErrRetry) {
				once.Do(func() { close(to.retried) })
			}
			return err
		})
	}
	to.task = start(func() (err error) {
		if err = again(func() error { return target.Raise(c.ctx, claim) }); err != nil {
			return fmt.Errorf("raise: %w", err)
		}
		if to.seen, err = target.Journal(c.ctx); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		return again(func() error { return target.Append(c.ctx, claim, "new") })
	})
	return to
}

// finish waits until the takeover is done, as it must be once nobody is in its
// way, and returns what is known then.
func (c *trial) finish(to *takeover, before fencing.Claim) History {
	c.t.Helper()
	if err := c.wait(to.task); err != nil {
		c.fatalf("taking over while the old holder is in the middle of a write: %v", err)
	}
	return History{Issuer: issuer, Takeovers: []Takeover{{before, 0}, {to.claim, len(to.seen)}}, Accepted: []string{"new"}}
}

// settled waits until the takeover is done, or waits for somebody; it tells
// which. n is how many operations wait then.
func (c *trial) settled(to *takeover, target Target, n int) (done bool) {
	c.t.Helper()
	return c.doneOrWaits(to.task, to.retried, target, n)
}

// doneOrWaits waits until the task is done, or until target, if it is a Waiter,
// says that n operations wait, or until retried is closed.
func (c *trial) doneOrWaits(tk *task, retried <-chan struct{}, target Target, n int) (done bool) {
	c.t.Helper()
	waiter, _ := target.(Waiter)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-tk.done:
			return true
		case <-retried:
			return false
		case <-c.ctx.Done():
			c.t.Fatalf("neither done nor waiting within %v; if the store lets it wait, the target should be a Waiter", patience)
		case <-tick.C:
		}
		if waiter == nil {
			continue
		}
		waiting, err := waiter.Waiting(c.ctx)
		c.must(err)
		if waiting >= n {
			return false
		}
	}
}

// outcome sorts a nonce by the error of its write.
func (h *History) outcome(c *trial, what, nonce string, err error) {
	switch {
	case err == nil:
		h.Accepted = append(h.Accepted, nonce)
	case errors.Is(err, fencing.ErrUnknown):
	case errors.Is(err, fencing.ErrFenced), errors.Is(err, fencing.ErrRetry):
		h.Refused = append(h.Refused, nonce)
	default:
		h.Refused = append(h.Refused, nonce)
		c.errorf("%s: %v, want a class that says what to do", what, err)
	}
}
