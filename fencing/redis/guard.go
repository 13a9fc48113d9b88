// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"leasehold.dev/fencing"
)

// defaultReplicaTimeout is Options.ReplicaTimeout where none is given.
const defaultReplicaTimeout = time.Second

// Options of a guard. The zero value is for a server without replicas.
type Options struct {
	// Replicas is how many replicas must have a raise before it counts, and a
	// write before it is acknowledged. A raise that fewer have in time gives
	// fencing.ErrRetry, a write fencing.ErrUnknown: the primary has it.
	Replicas int
	// ReplicaTimeout bounds the wait for them. It must be shorter than the
	// client's ReadTimeout. Default: one second.
	ReplicaTimeout time.Duration
}

// Guard is the fencing.Guard of one resource.
type Guard struct {
	single   *goredis.Client        // or
	cluster  *goredis.ClusterClient // one of them
	resource string
	opts     Options
}

var _ fencing.Guard = (*Guard)(nil)

// New returns the guard of a resource, which is a name for all the data that one
// lease protects. The name is the hash tag of all its keys: see Key. It must be
// without braces and must never change, since another name is another mark.
//
// The client is a *redis.Client, also one for Sentinel, or a *redis.ClusterClient,
// and must not read from replicas. Whatever retries it is set to make, guarded
// writes are sent once.
func New(client goredis.UniversalClient, resource string, opts Options) (*Guard, error) {
	if resource == "" || strings.ContainsAny(resource, "{}") {
		return nil, fmt.Errorf("resource %q: the name must not be empty and have no braces, since it is a hash tag", resource)
	}
	if opts.Replicas < 0 || opts.ReplicaTimeout < 0 {
		return nil, fmt.Errorf("resource %q: the options must not be negative", resource)
	}
	if opts.ReplicaTimeout == 0 {
		opts.ReplicaTimeout = defaultReplicaTimeout
	}
	g := &Guard{resource: resource, opts: opts}
	var readTimeout time.Duration
	switch c := client.(type) {
	case *goredis.Client:
		g.single, readTimeout = c, c.Options().ReadTimeout
	case *goredis.ClusterClient:
		g.cluster, readTimeout = c, c.Options().ReadTimeout
		if c.Options().ReadOnly {
			return nil, fmt.Errorf("resource %q: the client reads from replicas, which may not have a raise yet; "+
				"give the guard, and the reads after a raise, one without ReadOnly and RouteByLatency", resource)
		}
	default:
		return nil, fmt.Errorf("resource %q: a guard needs a *redis.Client or a *redis.ClusterClient, not a %T", resource, client)
	}
	if opts.Replicas > 0 && readTimeout > 0 && readTimeout <= opts.ReplicaTimeout {
		return nil, fmt.Errorf("resource %q: the client stops reading after %v, so it cannot wait %v for replicas", resource, readTimeout, opts.ReplicaTimeout)
	}
	return g, nil
}

// Key is the name of a key of the resource's data.
func (g *Guard) Key(name string) Key { return Key("{" + g.resource + "}:" + name) }

// markKey is the mark's. No key of data has this name, since a resource has no
// braces.
func (g *Guard) markKey() string { return "{" + g.resource + "}leasehold" }

// Arm implements fencing.Guard. It refuses a server that could evict the mark.
func (g *Guard) Arm(ctx context.Context, issuer string) error {
	if err := fencing.ValidateIssuer(issuer); err != nil {
		return g.wrap("arm", err)
	}
	return g.repeatable(ctx, "arm", armScript, fencing.Claim{Issuer: issuer}, decideIssuer, issuer)
}

// Raise implements fencing.Guard. It refuses a server that could evict the mark.
func (g *Guard) Raise(ctx context.Context, claim fencing.Claim) error {
	if err := claim.Validate(); err != nil {
		return g.wrap("raise", err)
	}
	return g.repeatable(ctx, "raise", raiseScript, claim, fencing.DecideRaise, claimArgs(claim)...)
}

// Read implements fencing.Guard. A mark that was raised before a fail-over or a
// restart has no holder.
func (g *Guard) Read(ctx context.Context) (fencing.Mark, error) {
	reply, err := g.run(ctx, readScript, []string{g.markKey()}, nil)
	if err != nil {
		return fencing.Mark{}, g.wrap("read", classify(ctx, err, failure{decide: fencing.DecideWrite}))
	}
	fields, ok := reply.([]any)
	if !ok || len(fields) != 3 {
		return fencing.Mark{}, g.wrap("read", fmt.Errorf("unexpected reply %v", reply))
	}
	m, err := parseMark(fmt.Sprint(fields[0]), fmt.Sprint(fields[1]), fmt.Sprint(fields[2]))
	return m, g.wrap("read", err)
}

// Adopt implements fencing.Guard.
func (g *Guard) Adopt(ctx context.Context, fromIssuer, toIssuer string) error {
	if err := errors.Join(fencing.ValidateIssuer(fromIssuer), fencing.ValidateIssuer(toIssuer)); err != nil {
		return g.wrap("adopt", err)
	}
	return g.repeatable(ctx, "adopt", adoptScript, fencing.Claim{Issuer: toIssuer}, decideIssuer, fromIssuer, toIssuer)
}

// repeatable runs a script that can be run again, so that a lost reply is a
// reason to do so.
func (g *Guard) repeatable(
	ctx context.Context, verb string, s *Script, claim fencing.Claim, decide decision, args ...any,
) error {
	_, err := g.run(ctx, s, []string{g.markKey()}, args)
	return g.wrap(verb, classify(ctx, err, failure{claim: claim, decide: decide}))
}

func claimArgs(c fencing.Claim) []any {
	return []any{c.Issuer, strconv.FormatInt(c.Token, 10), c.Holder}
}

// wrap names the resource and what was tried; nil stays nil.
func (g *Guard) wrap(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %q: %w", verb, g.resource, err)
}

// decideIssuer gives the reason why the mark refused an issuer as such.
func decideIssuer(m fencing.Mark, c fencing.Claim) error {
	if m.Issuer == c.Issuer {
		return nil
	}
	return &fencing.ForeignError{Mine: c, Newest: m}
}
