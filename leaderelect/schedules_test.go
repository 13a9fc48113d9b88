// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package leaderelect_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	plainlock "k8s.io/client-go/tools/leaderelection/resourcelock"

	"leasehold.dev/internal/testenv/apiserver"
	"leasehold.dev/leaderelect"
)

var (
	schedules = flag.Int("schedules", 200, "number of random fault schedules")
	firstSeed = flag.Int("first-seed", 1, "seed of the first schedule")
	width     = flag.Int("width", 50, "how many schedules run at a time")
)

// ours is an Elector.
func ours(ctx context.Context, config *rest.Config, namespace, name, who string, h *history) {
	e, err := leaderelect.New(leaderelect.Options{Config: config, Namespace: namespace, Name: name, Identity: who,
		ReleaseTimeout: time.Second, Compete: &leaderelect.Compete{Duration: duration, RenewInterval: interval, Issuer: "contest"}})
	if err != nil {
		panic(err)
	}
	_ = e.Run(ctx, func(ctx context.Context, t *leaderelect.Term) error {
		h.lead(ctx, who, t.Claim().Token, t.Valid)
		return errors.New("asked to stop")
	})
}

// plain is client-go's LeaderElector with its own lock, made as client-go's
// example does, and timings in the relations of its defaults.
func plain(ctx context.Context, config *rest.Config, namespace, name, who string, h *history) {
	elect(ctx, &plainlock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Client:     kubernetes.NewForConfigOrDie(config).CoordinationV1(),
		LockConfig: plainlock.ResourceLockConfig{Identity: who}}, who, h, nil)
}

// elect runs client-go's LeaderElector. leads says more than the context of its
// callback does; nil: nothing.
func elect(ctx context.Context, lock plainlock.Interface, who string, h *history, leads func() (int64, bool)) {
	for ctx.Err() == nil {
		returned := make(chan struct{})
		le, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: duration, RenewDeadline: 2 * time.Second, RetryPeriod: 400 * time.Millisecond, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					defer close(returned)
					if leads == nil {
						h.lead(ctx, who, 0, func() bool { return ctx.Err() == nil })
						return
					}
					token, _ := leads()
					h.lead(ctx, who, token, func() bool { now, ok := leads(); return ok && now == token })
				},
				OnStoppedLeading: func() {},
			}})
		if err != nil {
			panic(err)
		}
		le.Run(ctx)
		select {
		case <-returned:
		default: // It was never called, or has yet to notice.
		}
	}
}

// TestFaultSchedules: see contest. What the protocol allows is nothing: a
// function that returns when it is asked to has returned before the next begins,
// unless this process was not scheduled.
func TestFaultSchedules(t *testing.T) {
	t.Parallel()
	namespace := apiserver.Namespace(t)
	s := watchStalls(t.Context())
	all, terms := untilEnough(t, *firstSeed, *schedules, *schedules/2, func(seed uint64) judgement {
		return newContest(t, namespace, seed).run(ours, ours, ours)
	})
	for seed, j := range all {
		for what, found := range map[string][]string{"two were sure to lead": j.doubled, "tokens did not rise": j.regressions} {
			if len(found) > 0 {
				t.Errorf("seed %d: %s: %q", seed, what, found)
			}
		}
		if len(j.overlaps) > 0 {
			t.Errorf("seed %d: functions overlapped: %q", seed, j.overlaps)
		}
	}
	t.Logf("%d terms in %d schedules from seed %d; this process was not scheduled for at most %s", terms, len(all), *firstSeed, s.end())
}

// TestPlainLeaderElectionOverlaps is the negative control: the same faults, and
// client-go's own lock.
func TestPlainLeaderElectionOverlaps(t *testing.T) {
	t.Parallel()
	namespace := apiserver.Namespace(t)
	terms, tried := 0, 0
	for tried < 100 {
		var doubled []string
		for seed, j := range inParallel(t, *firstSeed+tried, 10, func(seed uint64) judgement {
			return newContest(t, namespace, seed).run(plain, plain, plain)
		}) {
			terms += j.terms
			for _, d := range j.doubled {
				doubled = append(doubled, fmt.Sprintf("seed %d: %s", seed, d))
			}
		}
		if tried += 10; len(doubled) > 0 {
			t.Logf("%d terms in %d schedules; two led at once: %q", terms, tried, doubled)
			return
		}
	}
	t.Errorf("no overlap in %d schedules with %d terms: the faults do not find what they are for", tried, terms)
}
