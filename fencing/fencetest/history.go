// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"leasehold.dev/fencing"
)

// kinds of operations in a history.
type kind int

const (
	kindRaise kind = iota
	kindAppend
	kindRead
)

// call is the input of an operation, and what of its error the model needs.
type call struct {
	kind  kind
	claim fencing.Claim
	nonce string
}

// reply is its output.
type reply struct {
	err  error   // nil, or of a class
	seen []Entry // by a read
	at   int     // where a write that was done is in the final journal
}

// state is what a resource is to the model. What the journal has up to its
// length is the same in every run of the model, since explain gives each write
// its place.
type state struct {
	mark   fencing.Mark
	length int
}

// step is the model: the one order of all operations that a fenced resource may
// show must be a run of it.
func step(s state, in call, out reply) (bool, state) {
	switch in.kind {
	case kindRead:
		return s.length == len(out.seen), s
	case kindRaise:
		return decide(fencing.DecideRaise(s.mark, in.claim), out.err, s, state{fencing.Mark(in.claim), s.length})
	default:
		if out.err == nil && out.at != s.length {
			return false, s
		}
		return decide(fencing.DecideWrite(s.mark, in.claim), out.err, s, state{s.mark, s.length + 1})
	}
}

// decide compares a reply with what the rule says in a state.
func decide(rule, got error, s, next state) (bool, state) {
	switch {
	case got == nil:
		return rule == nil, next
	case errors.Is(got, fencing.ErrUnknown): // a raise that may have been done, or may yet be
		if rule == nil {
			return true, next // not at all is the same as after everything
		}
		return true, s
	case errors.Is(got, fencing.ErrRetry):
		return true, s // not done, whatever the rule says
	case errors.Is(got, fencing.ErrFenced):
		return errors.Is(rule, fencing.ErrFenced), s
	default:
		return false, s
	}
}

// recorder collects a history. Its clock counts: what happened before what is
// all that matters.
type recorder struct {
	clock atomic.Int64
	mu    sync.Mutex
	ops   []porcupine.Operation
}

// do runs and records one operation. The operation may return something else
// in place of its error, for what is known about it.
func (r *recorder) do(client int, in call, op func() reply) {
	called := r.clock.Add(1)
	out := op()
	returned := r.clock.Add(1)
	if errors.Is(out.err, fencing.ErrUnknown) {
		returned = math.MaxInt64 // it may still happen
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, porcupine.Operation{ClientId: client, Input: in, Call: called, Output: out, Return: returned})
}

// decideTimeout bounds the search for an order of the operations.
const decideTimeout = 2 * time.Minute

// linearizable tells whether one order explains the history of a resource that
// was armed for the issuer and whose journal, in the end, is final.
func (r *recorder) linearizable(issuer string, final []Entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ops, err := explain(r.ops, final)
	if err != nil {
		return err
	}
	model := porcupine.Model{
		Init: func() any { return state{mark: fencing.Mark{Issuer: issuer}} },
		Step: func(s, in, out any) (bool, any) { return step(s.(state), in.(call), out.(reply)) },
	}
	switch result := porcupine.CheckOperationsTimeout(model, ops, decideTimeout); result {
	case porcupine.Ok:
		return nil
	case porcupine.Illegal:
		return fmt.Errorf("no order of its %d operations explains the history", len(ops))
	default:
		return fmt.Errorf("no order of %d operations was found within %v: %s", len(ops), decideTimeout, result)
	}
}

// explain adds what the final journal tells of each operation: the place of a
// write, and so whether one of unknown outcome was done. Without it the search
// would have to try all orders of the writes.
func explain(ops []porcupine.Operation, final []Entry) ([]porcupine.Operation, error) {
	place := make(map[string]int, len(final))
	for i, e := range final {
		place[e.Nonce] = i
	}
	var known []porcupine.Operation
	for _, op := range ops {
		in, out := op.Input.(call), op.Output.(reply)
		switch in.kind {
		case kindRead:
			if !slices.Equal(out.seen, final[:min(len(final), len(out.seen))]) {
				return nil, fmt.Errorf("a read of %d entries is no beginning of the final journal of %d", len(out.seen), len(final))
			}
		case kindAppend:
			at, done := place[in.nonce]
			if !done && errors.Is(out.err, fencing.ErrUnknown) {
				continue // it never was
			}
			var err error
			if out, err = explainWrite(in, out, at, done); err != nil {
				return nil, err
			}
		case kindRaise:
		}
		op.Output = out
		known = append(known, op)
	}
	return known, nil
}

func explainWrite(in call, out reply, at int, done bool) (reply, error) {
	switch {
	case done && out.err != nil && !errors.Is(out.err, fencing.ErrUnknown):
		return reply{}, fmt.Errorf("write %s was refused and is in the journal: %w", in.nonce, out.err)
	case done:
		return reply{at: at}, nil
	case out.err == nil:
		return reply{}, fmt.Errorf("write %s was acknowledged and is not in the journal", in.nonce)
	}
	return out, nil
}
