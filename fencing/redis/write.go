// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"leasehold.dev/fencing"
)

// Key is a key of a resource's data: see Guard.Key.
type Key string

// Command is a command of Redis by its words, as in
//
//	redis.Command{"SET", guard.Key("balance"), 110}
//
// Each needs a Key at least. All else is what the client can send: strings,
// numbers, bytes, times.
type Command []any

// Exec runs commands, all in one atomic step, on condition of the claim, and
// returns their replies. Call it only after Raise has returned.
//
// If the first command fails nothing was done, and the error is the server's.
// Redis does not undo: if a later one fails, the error is fencing.ErrUnknown,
// and says how many were done.
//
// To find out after fencing.ErrUnknown, store a nonce with the data in the same
// call, such as the member of a set, and look for it.
func (g *Guard) Exec(ctx context.Context, claim fencing.Claim, commands ...Command) ([]any, error) {
	var keys []Key
	var args []any
	for _, c := range commands {
		found, err := commandKeys(c)
		if err != nil {
			return nil, g.wrap("write", err)
		}
		keys = append(keys, found...)
		args = append(args, len(c))
		args = append(args, c...)
	}
	slices.Sort(keys)
	reply, err := g.guarded(ctx, claim, execScript, slices.Compact(keys), args, false)
	if err != nil {
		return nil, err
	}
	replies, _ := reply.([]any)
	return replies, nil
}

func commandKeys(c Command) (keys []Key, err error) {
	for _, word := range c {
		if key, ok := word.(Key); ok {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("command %.100q has no Key; pass the keys that it touches as Guard.Key gives them", fmt.Sprint(c...))
	}
	return keys, nil
}

// Run runs a script of the caller's own on condition of the claim, in one atomic
// step, and returns its reply. keys must be all that it touches.
//
// If the script itself fails, what it did before stands, so the error is
// fencing.ErrUnknown: let it check first and write then.
func (g *Guard) Run(ctx context.Context, claim fencing.Claim, script *Script, keys []Key, args ...any) (any, error) {
	return g.guarded(ctx, claim, script, keys, args, true)
}

func (g *Guard) guarded(
	ctx context.Context, claim fencing.Claim, script *Script, keys []Key, args []any, own bool,
) (any, error) {
	if err := errors.Join(claim.Validate(), g.checkKeys(keys)); err != nil {
		return nil, g.wrap("write", err)
	}
	names := []string{g.markKey()}
	for _, key := range keys {
		names = append(names, string(key))
	}
	reply, err := g.run(ctx, script, names, slices.Concat(claimArgs(claim), plainArgs(args)))
	if errors.Is(err, goredis.Nil) { // no failure: the script has nothing to say
		return nil, nil
	}
	f := failure{claim: claim, decide: fencing.DecideWrite, writing: true, own: own}
	return reply, g.wrap("write", classify(ctx, err, f))
}

// plainArgs are args as the client can send them.
func plainArgs(args []any) []any {
	sent := slices.Clone(args)
	for i, arg := range sent {
		if key, ok := arg.(Key); ok {
			sent[i] = string(key)
		}
	}
	return sent
}

// checkKeys: a key in another slot could be on another server.
func (g *Guard) checkKeys(keys []Key) error {
	for _, key := range keys {
		if !strings.HasPrefix(string(key), "{"+g.resource+"}:") {
			return fmt.Errorf("key %q is not one of the resource, which begin with %q: make it with Guard.Key", key, g.Key(""))
		}
	}
	return nil
}
