// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	goredis "github.com/redis/go-redis/v9"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"leasehold.dev/fencing"
	"leasehold.dev/fencing/postgres"
	"leasehold.dev/fencing/redis"
	"leasehold.dev/leaderelect/resourcelock"
)

// The pages show parts of these functions.

func fencedInsert(ctx context.Context, db *pgxpool.Pool, entry, amount int) error {
	claim, err := fencing.FromEnv() // FENCING_TOKEN, FENCING_HOLDER, FENCING_ISSUER
	if err != nil {
		return err // no claim: do not start
	}
	guard := postgres.New(db, "ledger")
	if err := guard.Raise(ctx, claim); err != nil { // first raise: from here on no older token can write
		return err
	}
	// Then read the state. Then write, every time under the guard:
	err = guard.Tx(ctx, claim, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO ledger (entry, amount) VALUES ($1, $2)`, entry, amount)
		return err
	})
	if errors.Is(err, fencing.ErrFenced) {
		return err // a newer holder is there: stop for good
	}
	return err
}

func fencedUpdate(ctx context.Context, db *pgxpool.Pool) error {
	claim, err := fencing.FromEnv()
	if err != nil {
		return err
	}
	guard := postgres.New(db, "ledger") // db is a *pgxpool.Pool
	if err := guard.Raise(ctx, claim); err != nil {
		return err
	}
	var balance int64 // read only after the raise has returned
	if err := db.QueryRow(ctx, `SELECT balance FROM account WHERE id = 1`).Scan(&balance); err != nil {
		return err
	}
	rows, err := guard.Exec(ctx, claim, `UPDATE account SET balance = $1 WHERE id = $2`, balance+100, 1)
	if err != nil {
		return err
	}
	fmt.Println(rows)
	return nil
}

func fencedSet(ctx context.Context, client *goredis.Client) error {
	claim, err := fencing.FromEnv()
	if err != nil {
		return err
	}
	guard, err := redis.New(client, "ledger", redis.Options{Replicas: 1}) // how many replicas must have a raise or a write
	if err != nil {
		return err
	}
	if err := guard.Raise(ctx, claim); err != nil {
		return err
	}
	balance, err := client.Get(ctx, string(guard.Key("balance"))).Int64() // read only after the raise has returned
	if err != nil {
		return err
	}
	_, err = guard.Exec(ctx, claim, redis.Command{"SET", guard.Key("balance"), balance + 10})
	return err
}

func Example() {
	ctx := context.Background()
	db, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	client := goredis.NewClient(&goredis.Options{Addr: os.Getenv("REDIS_ADDRESS")})
	fmt.Println(fencedInsert(ctx, db, 1, 100), fencedUpdate(ctx, db), fencedSet(ctx, client))
}

// elected is a manager of controller-runtime whose replicas elect one with a token.
func elected(config *rest.Config, id string) (ctrl.Manager, *resourcelock.Lock, error) {
	lock, err := resourcelock.New(resourcelock.Options{Config: config, Namespace: "shop", Name: "operator", Identity: id})
	if err != nil {
		return nil, nil, err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		LeaderElection:                      true,
		LeaderElectionID:                    "operator",
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       true,
	})
	return mgr, lock, err
}

func Example_elected() {
	mgr, lock, err := elected(&rest.Config{}, "operator-0_1f7c")
	fmt.Println(mgr, lock, err)
}
