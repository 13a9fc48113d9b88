// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"crypto/rand"
	"errors"

	clientv3 "go.etcd.io/etcd/client/v3"

	"leasehold.dev/fencing"
	"leasehold.dev/fencing/etcd"
)

// A holder raises the mark, reads the state, and then writes, each time with
// its claim. The context has a deadline.
func Example() {
	work := func(ctx context.Context, client *clientv3.Client, next func(*clientv3.GetResponse) string) error {
		claim, err := fencing.FromEnv()
		if err != nil {
			return err
		}
		guard := etcd.New(client, "ledger")
		if err := guard.Raise(ctx, claim); err != nil {
			return err
		}
		state, err := client.Get(ctx, "ledger/balance") // read only after the raise has returned
		if err != nil {
			return err
		}
		_, err = guard.Write(ctx, claim, clientv3.OpPut("ledger/balance", next(state)))
		return err
	}
	_ = work
}

// An operator arms the resource, once.
func ExampleGuard_Arm() {
	arm := func(ctx context.Context, client *clientv3.Client, issuer string) error {
		return etcd.New(client, "ledger").Arm(ctx, issuer)
	}
	_ = arm
}

// A write whose reply was lost is run again with the same nonce, which is a key
// of its own beside the data: the second run finds whether it was done.
func ExampleGuard_Write() {
	post := func(ctx context.Context, guard *etcd.Guard, claim fencing.Claim, amount string) error {
		nonce := "ledger/posting/" + rand.Text()
		once := clientv3.OpTxn(
			[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(nonce), "=", 0)}, // else an earlier run has done it
			[]clientv3.Op{clientv3.OpPut(nonce, amount)}, nil)
		for {
			_, err := guard.Write(ctx, claim, once)
			again := errors.Is(err, fencing.ErrRetry) || errors.Is(err, fencing.ErrUnknown)
			if !again || ctx.Err() != nil {
				return err
			}
		}
	}
	_ = post
}
