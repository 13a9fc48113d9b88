// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"fmt"
	"time"

	"leasehold.dev/api/v1alpha1"
)

const (
	// MinDuration is the shortest lease in which a request, one retry and the
	// stopping of the work fit.
	MinDuration = 3 * time.Second
	// DefaultTakeUp is how long a granted candidate may take to confirm.
	DefaultTakeUp = 300 * time.Second
	// DefaultLockDelay is added under Forbid before a force delete counts.
	DefaultLockDelay = 15 * time.Second

	maxSeconds = int64(366 * 24 * time.Hour / time.Second)
)

// DefaultDuration is the duration of a lease that sets none. Nodes renew their
// own leases about every 10 s, so that a kubelet's silence shows only late.
func DefaultDuration(by v1alpha1.RenewedBy) time.Duration {
	if by == v1alpha1.RenewedByKubelet {
		return 40 * time.Second
	}
	return 15 * time.Second
}

// Timing derives, from a term's duration, when its holder does what. All times
// count from the START of the holder's last successful renewal request: the
// server applied it then or later, so every observer's wait ends later still.
// Counting from the reply would add the reply's delay to the trust.
type Timing struct {
	// Duration is the term's frozen duration.
	Duration time.Duration
	// RenewInterval is the time between two renewals.
	RenewInterval time.Duration
}

// Timing returns the timing of terms granted under this configuration.
func (c Config) Timing() Timing {
	return Timing{Duration: c.Duration, RenewInterval: c.RenewInterval}
}

// Validate says what does not fit.
func (t Timing) Validate() error {
	switch {
	case t.Duration < MinDuration:
		return fmt.Errorf("duration %s is too short: want at least %s", t.Duration, MinDuration)
	case t.RenewInterval <= 0 || 2*t.RenewInterval > t.Duration:
		return fmt.Errorf("renew interval %s does not fit a duration of %s: want more than 0 and at most half of it",
			t.RenewInterval, t.Duration)
	}
	return nil
}

// Stop is when a holder that could not renew asks its work to stop (SIGTERM):
// two thirds of the duration; 10 s of 15.
func (t Timing) Stop() time.Duration { return t.Duration * 2 / 3 }

// Kill is when it ends its work by force (SIGKILL), a thirtieth of the duration
// before trust ends; 11.5 s of 15.
func (t Timing) Kill() time.Duration { return t.Trust() - t.Duration/30 }

// Trust is when the term may no longer be trusted: four fifths of the duration;
// 12 s of 15. The last fifth is the margin for the rate errors of both clocks
// and the time that a kill takes.
func (t Timing) Trust() time.Duration { return t.Duration * 4 / 5 }

// RequestTimeout bounds one request, so that a hung connection leaves time for
// another try before Stop.
func (t Timing) RequestTimeout() time.Duration {
	return max(min(t.RenewInterval/2, 5*time.Second), 500*time.Millisecond)
}

// RetryInterval is the pause before a failed renewal is tried again.
func (t Timing) RetryInterval() time.Duration {
	return max(min(t.RenewInterval/5, time.Second), 100*time.Millisecond)
}
