// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold.dev/fencing"
)

// Write does operations in one transaction on condition of the claim, and
// returns their responses. Call it only after Raise has returned.
//
// Conditions of the caller's own go into a clientv3.OpTxn among the operations;
// a transaction in a transaction is part of it. After fencing.ErrUnknown, look
// for the nonce that the write stored, such as a key of that name.
func (g *Guard) Write(ctx context.Context, claim fencing.Claim, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	if err := errors.Join(g.named(), claim.Validate(), checkOps(ops)); err != nil {
		return nil, g.wrap("write", err)
	}
	resp, err := g.kv.Txn(ctx).
		If(clientv3.Compare(clientv3.Value(g.markKey()), "=", encode(fencing.Mark(claim)))).
		Then(ops...).
		Else(clientv3.OpGet(g.markKey())).Commit()
	if err != nil {
		return nil, g.wrap("write", classify(ctx, err, claim, true))
	}
	if !resp.Succeeded {
		return nil, g.wrap("write", refusal(resp, claim))
	}
	return resp, nil
}

// refusal is the reason why the mark that the response has refused the claim.
func refusal(resp *clientv3.TxnResponse, claim fencing.Claim) error {
	m, _, err := markOf(resp.Responses[0].GetResponseRange().Kvs)
	if errors.Is(err, fencing.ErrNotArmed) {
		return &fencing.NotArmedError{Mine: claim}
	}
	if err != nil {
		return err
	}
	if reason := fencing.DecideWrite(m, claim); reason != nil {
		return reason
	}
	return fmt.Errorf("refused by the mark %v, for no reason that it gives; stop writing", m)
}

// checkOps refuses operations that would change marks: the Then of a
// transaction must not undo its If.
func checkOps(ops []clientv3.Op) error {
	for _, op := range ops {
		_, then, otherwise := op.Txn()
		if err := errors.Join(checkOps(then), checkOps(otherwise)); err != nil {
			return err
		}
		if (op.IsPut() || op.IsDelete()) && overlapsPrefix(op.KeyBytes(), op.RangeBytes()) {
			return fmt.Errorf("the operation on key %.100q touches marks, whose keys begin with %q", op.KeyBytes(), Prefix)
		}
	}
	return nil
}

// overlapsPrefix tells whether a key, or the keys from it to before end, begin
// with Prefix. An end of one zero byte is that of all keys.
func overlapsPrefix(key, end []byte) bool {
	switch {
	case len(end) == 0:
		return bytes.HasPrefix(key, []byte(Prefix))
	case string(key) >= clientv3.GetPrefixRangeEnd(Prefix):
		return false
	default:
		return string(end) == "\x00" || string(end) > Prefix
	}
}

// decode reads what encode has written.
func decode(value string) (fencing.Mark, error) {
	parts := strings.Split(value, " ")
	if len(parts) != 3 || parts[1] == "" {
		return fencing.Mark{}, fmt.Errorf("%w: %.100q is not a token, an issuer and a holder", errDamaged, value)
	}
	token, err := decodeToken(parts[0])
	return fencing.Mark{Issuer: parts[1], Token: token, Holder: parts[2]}, err
}
