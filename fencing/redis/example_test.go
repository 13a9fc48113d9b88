// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package redis_test

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"leasehold.dev/fencing"
	"leasehold.dev/fencing/redis"
)

// A holder raises the mark, reads the state, and then writes, each time with
// its claim.
func Example() {
	work := func(ctx context.Context, client *goredis.Client) error {
		claim, err := fencing.FromEnv()
		if err != nil {
			return err
		}
		guard, err := redis.New(client, "ledger", redis.Options{Replicas: 1, ReplicaTimeout: time.Second})
		if err != nil {
			return err
		}
		if err := guard.Raise(ctx, claim); err != nil {
			return err
		}
		key := guard.Key("balance")
		balance, err := client.Get(ctx, string(key)).Int64() // read after the raise, never before
		if err != nil {
			return err
		}
		_, err = guard.Exec(ctx, claim, redis.Command{"SET", key, balance + 10})
		return err
	}
	_ = work
}

// A write whose reply was lost is run again with the same nonce, which it stores
// with the data: the second run finds whether it was done.
func ExampleGuard_Run() {
	post := redis.NewScript(`
		if redis.call('SADD', KEYS[2], ARGV[2]) == 1 then -- else an earlier run has done it
			redis.call('INCRBY', KEYS[1], ARGV[1])
		end
		return redis.call('GET', KEYS[1])`)
	add := func(ctx context.Context, guard *redis.Guard, claim fencing.Claim, amount int64) error {
		nonce := rand.Text()
		keys := []redis.Key{guard.Key("balance"), guard.Key("nonces")}
		for {
			_, err := guard.Run(ctx, claim, post, keys, amount, nonce)
			again := errors.Is(err, fencing.ErrRetry) || errors.Is(err, fencing.ErrUnknown)
			if !again || ctx.Err() != nil {
				return err
			}
		}
	}
	_ = add
}
