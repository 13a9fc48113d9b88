// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package leaderelect_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/rest"

	"leasehold.dev/fencing"
	"leasehold.dev/fencing/sqlite"
	"leasehold.dev/leaderelect"
)

// What docs/library.md shows of these is in functions of their own.

// newElector takes the lease itself, where no controller grants it.
func newElector(config *rest.Config) (*leaderelect.Elector, error) {
	return leaderelect.New(leaderelect.Options{
		Config:    config, // rest.InClusterConfig() in a pod
		Namespace: "default",
		Name:      "reconciler",
		Compete: &leaderelect.Compete{
			Fresh: true, // nobody deletes the Lease: the very first start need not wait
		},
	})
}

// newGrantedElector waits for the grant that the environment of its pod is about.
func newGrantedElector(config *rest.Config) (*leaderelect.Elector, error) {
	return leaderelect.New(leaderelect.Options{Config: config})
}

// reconcile works until it is asked to return.
func reconcile(ctx context.Context, term *leaderelect.Term) error {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done(): // the term is over, or its end is asked for
			return context.Cause(ctx)
		case <-ticker.C:
			fmt.Println("one round with token", term.Claim().Token)
		}
	}
}

// post is the write of one entry, fenced.
func post(ctx context.Context, db *sql.DB, claim fencing.Claim, amount int) error {
	guard := sqlite.New(db, "ledger")
	if err := guard.Raise(ctx, claim); err != nil { // once for each term
		return err
	}
	_, err := guard.Exec(ctx, claim, `INSERT INTO ledger (amount) VALUES (?)`, amount)
	return err
}

// A program of which one process works at a time. The function has done its work
// and returns; Run releases the lease then.
func ExampleElector_Run() {
	elector, err := newElector(exampleConfig())
	if err != nil {
		fmt.Println(err)
		return
	}
	err = elector.Run(context.Background(), func(_ context.Context, term *leaderelect.Term) error {
		fmt.Println("the term can be trusted:", term.Valid())
		fmt.Println("it has a token:", term.Claim().Token > 0)
		return nil
	})
	fmt.Println("ended:", err)
	// Output:
	// the term can be trusted: true
	// it has a token: true
	// ended: <nil>
}

// A program in a pod to which Leasehold's manager grants the lease.
func ExampleElector_Run_granted() {
	config, done := grantedPod("granted")
	defer done()
	elector, err := newGrantedElector(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = elector.Run(context.Background(), func(_ context.Context, term *leaderelect.Term) error {
		fmt.Println("granted to", term.Claim().Holder)
		return nil
	})
	fmt.Println("ended:", err)
	// Output:
	// granted to worker-0_1f7c
	// ended: <nil>
}

// A function that works until it is asked to return, here because the program is.
func ExampleElector_Run_stop() {
	elector, err := newElector(exampleConfig())
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancelCause(context.Background()) // signal.NotifyContext in a program
	err = elector.Run(ctx, func(ctx context.Context, term *leaderelect.Term) error {
		stop(errors.New("the program is to end"))
		err := reconcile(ctx, term)
		fmt.Println("still valid, and so still alone:", term.Valid())
		return err
	})
	fmt.Println("ended:", err)
	// Output:
	// still valid, and so still alone: true
	// ended: the program is to end
}

// The write of a holder whose term is over is refused by the database, whatever
// the holder believes.
func ExampleTerm_Claim() {
	db, done := exampleDatabase()
	defer done()
	ctx := context.Background()
	var first fencing.Claim
	for range 2 { // Two terms; in life, of two processes.
		elector, err := newElector(exampleConfig())
		if err != nil {
			fmt.Println(err)
			return
		}
		err = elector.Run(ctx, func(ctx context.Context, term *leaderelect.Term) error {
			if first.Token == 0 {
				first = term.Claim()
			}
			return post(ctx, db, term.Claim(), 100)
		})
		fmt.Println("written:", err == nil)
	}
	err := post(ctx, db, first, 7)
	fmt.Println("the first, late, is refused:", errors.Is(err, fencing.ErrFenced))
	// Output:
	// written: true
	// written: true
	// the first, late, is refused: true
}

// A section that must not be late to end. How long such sections take is put on
// the Lease.
func ExampleTerm_Section() {
	elector, err := newElector(exampleConfig())
	if err != nil {
		fmt.Println(err)
		return
	}
	err = elector.Run(context.Background(), func(ctx context.Context, term *leaderelect.Term) error {
		return term.Section(ctx, func(context.Context) error {
			fmt.Println("in the section")
			return nil
		})
	})
	fmt.Println("ended:", err)
	// Output:
	// in the section
	// ended: <nil>
}

// newStrictElector ends the program when its function does not return in time.
func newStrictElector(config *rest.Config) (*leaderelect.Elector, error) {
	return leaderelect.New(leaderelect.Options{
		Config:    config,
		Namespace: "default",
		Name:      "reconciler",
		Compete:   &leaderelect.Compete{},
		OneTerm:   true, // and do not begin anew in the same process
		Overrun:   func(*leaderelect.Term) { os.Exit(75) },
	})
}

// For work that cannot be relied on to return.
func ExampleOptions() {
	elector, err := newStrictElector(exampleConfig())
	fmt.Println(elector != nil, err)
	// Output: true <nil>
}
