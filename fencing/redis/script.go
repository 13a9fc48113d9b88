// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	_ "embed"
	"fmt"
	"slices"

	goredis "github.com/redis/go-redis/v9"
)

var (
	//go:embed lua/check.lua
	checkLua string
	//go:embed lua/exec.lua
	execLua string
	//go:embed lua/arm.lua
	armLua string
	//go:embed lua/raise.lua
	raiseLua string
	//go:embed lua/read.lua
	readLua string
	//go:embed lua/adopt.lua
	adoptLua string
)

var (
	armScript   = plain(armLua)
	raiseScript = plain(raiseLua)
	readScript  = plain(readLua)
	adoptScript = plain(adoptLua)
	execScript  = NewScript(execLua)
)

// Script is one that Guard.Run runs on condition of a claim.
type Script struct {
	text string
	sha  string
}

// NewScript returns a script with lua/check.lua in front. In lua, KEYS and ARGV
// are those given to Guard.Run. Make a script once, not for each write: servers
// keep every text.
func NewScript(lua string) *Script { return plain(checkLua + lua) }

func plain(lua string) *Script { return &Script{text: lua, sha: goredis.NewScript(lua).Hash()} }

// once is a command that the client does not send again after the connection
// broke: the first may have been done.
type once struct{ *goredis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// run runs a script at the primary of the mark's slot, and waits for replicas
// that it was replicated to. A primary that does not have the script gets its
// text: never another way to write.
func (g *Guard) run(ctx context.Context, s *Script, keys []string, args []any) (any, error) {
	node, err := g.primary(ctx)
	if err != nil {
		return nil, err
	}
	words := slices.Concat([]any{"EVALSHA", s.sha, len(keys)}, anys(keys), args)
	reply, err := g.send(ctx, node, words)
	if goredis.HasErrorPrefix(err, "NOSCRIPT") {
		words[0], words[1] = "EVAL", s.text
		reply, err = g.send(ctx, node, words)
	}
	if _, moved := goredis.IsMovedError(err); moved && g.cluster != nil {
		g.cluster.ReloadState(ctx)
	}
	return reply, err
}

// primary is the client of the server that has the mark's slot. A cluster's
// client would send WAIT, which has no key, to any server.
func (g *Guard) primary(ctx context.Context) (*goredis.Client, error) {
	if g.single != nil {
		return g.single, nil
	}
	node, err := g.cluster.MasterForKey(ctx, g.markKey())
	if err != nil {
		return nil, &unsentError{err}
	}
	return node, nil
}

// send sends a script, and WAIT behind it on the same connection.
func (g *Guard) send(ctx context.Context, node *goredis.Client, words []any) (any, error) {
	script := once{goredis.NewCmd(ctx, words...)}
	if g.opts.Replicas == 0 {
		_ = node.Process(ctx, script) // the command has the error
		return script.Result()
	}
	wait := goredis.NewIntCmd(ctx, "WAIT", g.opts.Replicas, g.opts.ReplicaTimeout.Milliseconds())
	pipe := node.Pipeline()
	_, _ = pipe.Process(ctx, script), pipe.Process(ctx, wait) // only queues them
	_, _ = pipe.Exec(ctx)                                     // the commands have the errors
	switch {
	case script.Err() != nil:
		return script.Result()
	case wait.Err() != nil:
		return nil, &replicasError{err: wait.Err(), want: g.opts.Replicas}
	case wait.Val() < int64(g.opts.Replicas):
		return nil, &replicasError{have: wait.Val(), want: g.opts.Replicas}
	}
	return script.Result()
}

// unsentError is of something that was never sent.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

// replicasError: done on the primary, and not known to be on enough replicas.
type replicasError struct {
	have int64
	want int
	err  error
}

func (e *replicasError) Error() string {
	if e.err != nil {
		return fmt.Sprintf("done on the primary; whether %d replicas have it is not known: %v", e.want, e.err)
	}
	return fmt.Sprintf("done on the primary, and only %d of %d replicas have it", e.have, e.want)
}

func (e *replicasError) Unwrap() error { return e.err }

func anys[T any](values []T) []any {
	all := make([]any, len(values))
	for i, v := range values {
		all[i] = v
	}
	return all
}
