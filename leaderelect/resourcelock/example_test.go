// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcelock_test

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"

	"leasehold.dev/internal/testenv/apiserver"
	"leasehold.dev/leaderelect/resourcelock"
)

// lead is a program with client-go's LeaderElector, and this lock in the place of
// LeaseLock. docs/library.md shows it.
func lead(ctx context.Context, config *rest.Config, id string, work func(context.Context, *resourcelock.Lock)) error {
	lock, err := resourcelock.New(resourcelock.Options{
		Config: config, Namespace: "default", Name: "reconciler", Identity: id, // another one for each process
		Fresh: true,
	})
	if err != nil {
		return err
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   15 * time.Second, // as in the lock's options, whose default it is
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { work(ctx, lock) },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	return nil
}

// client-go's LeaderElector with a token.
func Example() {
	config, err := apiserver.Shared()
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	var held *resourcelock.Lock
	err = lead(ctx, config, "a", func(_ context.Context, lock *resourcelock.Lock) {
		claim, err := lock.Claim()
		fmt.Println("leads:", err == nil && claim.Token > 0)
		held = lock
		stop()
	})
	_, after := held.Claim()
	fmt.Println("ended:", err)
	fmt.Println("then:", after)
	// Output:
	// leads: true
	// ended: <nil>
	// then: the lock is not held
}
