// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold.dev/fencing"
)

// Prefix is what all keys of marks begin with. Guarded writes must not touch
// them.
const Prefix = "leasehold.dev/fencing/"

// Guard is the fencing.Guard of one resource.
type Guard struct {
	kv       clientv3.KV
	resource string
}

var _ fencing.Guard = (*Guard)(nil)

// New returns the guard of a resource, which is a name for all the data in one
// etcd that one lease protects. The name is free but must never change: another
// name is another mark. A *clientv3.Client is a KV; one of package namespace has
// marks of its own.
func New(kv clientv3.KV, resource string) *Guard { return &Guard{kv: kv, resource: resource} }

// Arm implements fencing.Guard.
func (g *Guard) Arm(ctx context.Context, issuer string) error {
	claim := fencing.Claim{Issuer: issuer}
	if err := errors.Join(g.named(), fencing.ValidateIssuer(issuer)); err != nil {
		return g.wrap("arm", err)
	}
	resp, err := g.kv.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(g.markKey()), "=", 0)).
		Then(clientv3.OpPut(g.markKey(), encode(fencing.Mark(claim)))).
		Else(clientv3.OpGet(g.markKey())).Commit()
	if err != nil {
		return g.wrap("arm", classify(ctx, err, claim, false))
	}
	if resp.Succeeded {
		return nil
	}
	m, _, err := markOf(resp.Responses[0].GetResponseRange().Kvs)
	if err == nil && m.Issuer != issuer {
		err = &fencing.ForeignError{Mine: claim, Newest: m}
	}
	return g.wrap("arm", err)
}

// Raise implements fencing.Guard. It tries again while others change the mark.
func (g *Guard) Raise(ctx context.Context, claim fencing.Claim) error {
	if err := errors.Join(g.named(), claim.Validate()); err != nil {
		return g.wrap("raise", err)
	}
	return g.replace(ctx, "raise", claim, func(current state) ([]clientv3.Op, error) {
		err := fencing.DecideRaise(current.mark, claim)
		if err != nil || (current.mark == fencing.Mark(claim) && current.lease == 0) {
			return nil, err
		}
		return []clientv3.Op{clientv3.OpPut(g.markKey(), encode(fencing.Mark(claim)))}, nil
	})
}

// Read implements fencing.Guard.
func (g *Guard) Read(ctx context.Context) (fencing.Mark, error) {
	if err := g.named(); err != nil {
		return fencing.Mark{}, g.wrap("read", err)
	}
	s, err := g.state(ctx, "")
	return s.mark, g.wrap("read", classify(ctx, err, fencing.Claim{}, false))
}

// Adopt implements fencing.Guard.
func (g *Guard) Adopt(ctx context.Context, fromIssuer, toIssuer string) error {
	claim := fencing.Claim{Issuer: toIssuer}
	if err := errors.Join(g.named(), fencing.ValidateIssuer(fromIssuer), fencing.ValidateIssuer(toIssuer)); err != nil {
		return g.wrap("adopt", err)
	}
	return g.replace(ctx, "adopt", claim, func(current state) ([]clientv3.Op, error) {
		switch current.mark.Issuer {
		case toIssuer:
			return nil, nil
		case fromIssuer:
			return []clientv3.Op{
				clientv3.OpPut(g.formerKey(fromIssuer), encodeToken(current.mark.Token)),
				// The new issuer is held to the token that it had here before.
				clientv3.OpPut(g.markKey(), encode(fencing.Mark{Issuer: toIssuer, Token: current.former})),
			}, nil
		default:
			return nil, &fencing.ForeignError{Mine: claim, Newest: current.mark}
		}
	})
}

// state is what a change of the mark is decided on.
type state struct {
	mark   fencing.Mark
	mod    int64 // revision of the mark
	lease  int64 // etcd's, 0 for none
	former int64 // token that an issuer had, 0 for none
}

// state reads the mark, and the token that an issuer had here before. Both
// change only with the mark's revision.
func (g *Guard) state(ctx context.Context, formerOf string) (state, error) {
	resp, err := g.kv.Txn(ctx).Then(clientv3.OpGet(g.markKey()), clientv3.OpGet(g.formerKey(formerOf))).Commit()
	if err != nil {
		return state{}, err
	}
	m, kv, err := markOf(resp.Responses[0].GetResponseRange().Kvs)
	if err != nil {
		return state{}, err
	}
	s := state{mark: m, mod: kv.ModRevision, lease: kv.Lease}
	if former := resp.Responses[1].GetResponseRange().Kvs; len(former) > 0 {
		s.former, err = decodeToken(string(former[0].Value))
	}
	return s, err
}

// replace changes the mark by what decide returns for it, unless that is
// nothing, and does so again if another was faster. It can be repeated, so that
// a lost reply is a reason to do so.
func (g *Guard) replace(ctx context.Context, verb string, claim fencing.Claim, decide func(state) ([]clientv3.Op, error)) error {
	for {
		current, err := g.state(ctx, claim.Issuer)
		if err != nil {
			return g.wrap(verb, classify(ctx, err, claim, false))
		}
		ops, err := decide(current)
		if err != nil || len(ops) == 0 {
			return g.wrap(verb, err)
		}
		resp, err := g.kv.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(g.markKey()), "=", current.mod)).
			Then(ops...).Commit()
		if err != nil || resp.Succeeded {
			return g.wrap(verb, classify(ctx, err, claim, false))
		}
	}
}

func (g *Guard) markKey() string { return Prefix + "mark/" + url.PathEscape(g.resource) }

func (g *Guard) formerKey(issuer string) string {
	return Prefix + "former/" + url.PathEscape(g.resource) + "/" + issuer
}

func (g *Guard) named() error {
	if g.resource == "" {
		return errors.New("a guard needs the name of a resource: see New")
	}
	return nil
}

// wrap names the resource and what was tried; nil stays nil.
func (g *Guard) wrap(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %q: %w", verb, g.resource, err)
}

// markOf is the mark that a read of its key has found.
func markOf(kvs []*mvccpb.KeyValue) (fencing.Mark, *mvccpb.KeyValue, error) {
	if len(kvs) == 0 {
		return fencing.Mark{}, nil, &fencing.NotArmedError{}
	}
	m, err := decode(string(kvs[0].Value))
	return m, kvs[0], err
}

// errDamaged: somebody has written to the mark who is not a guard.
var errDamaged = errors.New("the mark is damaged")

// tokenWidth is that of fencing.MaxToken in decimal.
const tokenWidth = 19

// encode is the one spelling of a mark. Names have no spaces.
func encode(m fencing.Mark) string { return encodeToken(m.Token) + " " + m.Issuer + " " + m.Holder }

func encodeToken(token int64) string { return fmt.Sprintf("%0*d", tokenWidth, token) }

func decodeToken(s string) (int64, error) {
	token, err := strconv.ParseInt(s, 10, 64)
	if err != nil || encodeToken(token) != s || token < 0 || token > fencing.MaxToken {
		return 0, fmt.Errorf("%w: %q is not a token of %d digits", errDamaged, s, tokenWidth)
	}
	return token, nil
}
