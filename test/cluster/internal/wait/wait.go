// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wait polls for conditions that nothing announces.
package wait

import (
	"context"
	"fmt"
	"time"
)

const interval = 50 * time.Millisecond

// For calls try until it succeeds. When ctx ends first, the error says what was
// awaited and what stood in the way last.
func For(ctx context.Context, what string, try func() error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w: %w", what, ctx.Err(), err)
		case <-ticker.C:
		}
	}
}

// Within is For with a deadline of its own.
func Within(ctx context.Context, limit time.Duration, what string, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return For(ctx, what, try)
}
