// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package leaderelect_test

import (
	"context"
	"testing"

	"k8s.io/client-go/rest"

	"leasehold.dev/internal/testenv/apiserver"
	"leasehold.dev/leaderelect/resourcelock"
)

// locked is client-go's LeaderElector with our lock.
func locked(ctx context.Context, config *rest.Config, namespace, name, who string, h *history) {
	l, err := resourcelock.New(resourcelock.Options{Config: config, Namespace: namespace, Name: name, Identity: who,
		LeaseDuration: duration, Issuer: "contest"})
	if err != nil {
		panic(err)
	}
	elect(ctx, l, who, h, func() (int64, bool) {
		claim, err := l.Claim()
		return claim.Token, err == nil
	})
}

// unseen is plain, of which nothing is judged.
func unseen(ctx context.Context, config *rest.Config, namespace, name, who string, _ *history) {
	plain(ctx, config, namespace, name, who, &history{})
}

// TestLockFaultSchedules: under client-go's LeaderElector, no two candidates have
// a claim at once, and claims rise; also where one more candidate has client-go's
// own lock, and where an Elector competes with them. Their functions overlap,
// which this lock cannot prevent.
//
// It is not among the parallel tests: their schedules need the machine, too.
func TestLockFaultSchedules(t *testing.T) {
	for name, candidates := range map[string][]candidate{
		"three of ours":     {locked, locked, locked},
		"beside LeaseLock":  {locked, unseen, locked},
		"beside an Elector": {locked, ours, locked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := apiserver.Namespace(t)
			overlaps, count := 0, max(*schedules/20, 1)
			all, terms := untilEnough(t, *firstSeed, count, count/2, func(seed uint64) judgement {
				return newContest(t, namespace, seed).run(candidates...)
			})
			for seed, j := range all {
				overlaps += len(j.overlaps)
				for what, found := range map[string][]string{"two had a claim": j.doubled, "tokens did not rise": j.regressions} {
					if len(found) > 0 {
						t.Errorf("seed %d: %s: %q", seed, what, found)
					}
				}
			}
			t.Logf("%d terms in %d schedules from seed %d; functions overlapped %d times", terms, len(all), *firstSeed, overlaps)
		})
	}
}
