// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"leasehold.dev/fencing"
	"leasehold.dev/fencing/postgres"
	"leasehold.dev/test/e2e/record"
)

// codeTerminated is the status of work that was told to stop.
const codeTerminated = 128 + int(syscall.SIGTERM)

type options struct {
	job        string
	exitAfter  time.Duration
	code       int
	succeedAt  int
	ignoreTerm bool
	child      bool
	asChild    bool
	guard      string
	beat       time.Duration
}

func parse(arguments []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("work", flag.ContinueOnError)
	flags.StringVar(&o.job, "job", "", "namespace/name of the job, under which all is recorded")
	flags.DurationVar(&o.exitAfter, "exit-after", 0, "end by itself after so long; 0: never")
	flags.IntVar(&o.code, "code", 0, "exit status for -exit-after")
	flags.IntVar(&o.succeedAt, "succeed-at", 0, "the start that exits with 0 whatever -code says, counted from 1")
	flags.BoolVar(&o.ignoreTerm, "ignore-term", false, "pay no heed to SIGTERM")
	flags.BoolVar(&o.child, "child", false, "leave a process running, in a session of its own, that records too")
	flags.BoolVar(&o.asChild, "as-child", false, "be that process")
	flags.StringVar(&o.guard, "guard", "", "resource of the fencing mark for guarded writes; empty: make none")
	flags.DurationVar(&o.beat, "beat", 100*time.Millisecond, "time between two signs of life")
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	if o.job == "" || flags.NArg() > 0 {
		return o, errors.New("usage: probe work -job namespace/name [flags]")
	}
	return o, nil
}

// worker is one start of work.
type worker struct {
	options
	claim fencing.Claim
	entry *record.Entry
}

func work(born time.Time, arguments []string) (int, error) {
	o, err := parse(arguments)
	if err != nil {
		return 0, err
	}
	claim, err := fencing.FromEnv()
	if err != nil {
		return 0, err
	}
	told := make(chan os.Signal, 1)
	if o.ignoreTerm {
		signal.Ignore(syscall.SIGTERM)
	} else {
		signal.Notify(told, syscall.SIGTERM)
	}
	ctx := context.Background()
	db, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return 0, fmt.Errorf("DATABASE_URL: %w", err)
	}
	w := &worker{options: o, claim: claim}
	if w.entry, err = record.Begin(ctx, db, w.start(born)); err != nil {
		return 0, err
	}
	fmt.Printf("started with token %d as process %d\n", claim.Token, os.Getpid())
	if err := w.goWithIt(ctx); err != nil {
		return 0, err
	}
	return w.live(ctx, told)
}

func (w *worker) start(born time.Time) record.Start {
	kind := record.Work
	if w.asChild {
		kind = record.Child
	}
	return record.Start{Job: w.job, Kind: kind, Token: w.claim.Token, Holder: w.claim.Holder, Boot: rand.Text()[:10], PID: os.Getpid(), Born: born}
}

// goWithIt starts what the options want beside the signs of life.
func (w *worker) goWithIt(ctx context.Context) error {
	if w.child {
		cmd := exec.Command("/proc/self/exe", "work", "-as-child", "-ignore-term", "-job", w.job, "-beat", w.beat.String())
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		// Out of the process group that a simple-minded parent would signal.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			return err
		}
	}
	if w.guard == "" {
		return nil
	}
	db, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	go w.write(ctx, db)
	return nil
}

// live records signs of life until it is time to end.
func (w *worker) live(ctx context.Context, told <-chan os.Signal) (int, error) {
	var over <-chan time.Time
	if w.exitAfter > 0 {
		over = time.After(w.exitAfter)
	}
	tick := time.NewTicker(w.beat)
	defer tick.Stop()
	for {
		if err := w.entry.Beat(ctx); err != nil {
			return 0, fmt.Errorf("sign of life: %w", err)
		}
		select {
		case <-told:
			return codeTerminated, nil
		case <-over:
			return w.status(ctx)
		case <-tick.C:
		}
	}
}

func (w *worker) status(ctx context.Context) (int, error) {
	if w.succeedAt == 0 {
		return w.code, nil
	}
	n, err := w.entry.Number(ctx)
	if n == w.succeedAt {
		return 0, err
	}
	return w.code, err
}

// write makes guarded writes and goes on after refusals, as no worker should: it
// is the database that must stop it.
func (w *worker) write(ctx context.Context, db *pgx.Conn) {
	guard := postgres.New(db, w.guard)
	if err := guard.Raise(ctx, w.claim); err != nil {
		w.refused(ctx, db, err)
	} else if err := w.entry.Raised(ctx, db); err != nil {
		fail(err)
	}
	tick := time.NewTicker(w.beat)
	defer tick.Stop()
	for range tick.C {
		sql, args := w.entry.Write()
		if _, err := guard.Exec(ctx, w.claim, sql, args...); err != nil {
			w.refused(ctx, db, err)
		}
	}
}

func (w *worker) refused(ctx context.Context, db *pgx.Conn, why error) {
	if !errors.Is(why, fencing.ErrFenced) {
		fail(why)
	}
	fmt.Println("refused:", why)
	if err := w.entry.Refused(ctx, db, why); err != nil {
		fail(err)
	}
}
