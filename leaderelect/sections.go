// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderelect

import (
	"math"
	"sync"
	"time"
)

const (
	// Buckets grow by a twentieth, from 1 ms to about a day.
	sectionBuckets = 376
	sectionGrowth  = 1.05
	// After that many sections all counts are halved, so that the newer weigh more.
	sectionsKept = 10_000
)

// sections measures the durations of critical sections in bounded memory.
type sections struct {
	mu     sync.Mutex
	counts [sectionBuckets]uint32
	total  uint32
}

func (s *sections) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[bucket(d)]++
	if s.total++; s.total < sectionsKept {
		return
	}
	s.total = 0
	for i := range s.counts {
		s.counts[i] /= 2
		s.total += s.counts[i]
	}
}

// p99 is at least the 99th percentile, and at most a twentieth more; zero where
// nothing was measured.
func (s *sections) p99() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total == 0 {
		return 0
	}
	within, want := uint32(0), s.total-s.total/100
	for i, n := range s.counts {
		if within += n; within >= want {
			return upper(i)
		}
	}
	return upper(sectionBuckets - 1)
}

// bucket is the least whose upper bound is not below d.
func bucket(d time.Duration) int {
	if d <= time.Millisecond {
		return 0
	}
	n := int(math.Ceil(math.Log(float64(d)/float64(time.Millisecond)) / math.Log(sectionGrowth)))
	return min(n, sectionBuckets-1)
}

func upper(i int) time.Duration {
	return time.Duration(float64(time.Millisecond) * math.Pow(sectionGrowth, float64(i)))
}
