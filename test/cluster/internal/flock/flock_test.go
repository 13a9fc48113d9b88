// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package flock

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"
)

func TestLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "sub", "lock")
	told := 0
	unlock, err := Lock(context.Background(), name, func() { told++ })
	if err != nil || told != 0 {
		t.Fatalf("first: %v, told %d times", err, told)
	}
	short, cancel := context.WithTimeout(context.Background(), 120*time.Millisecond)
	defer cancel()
	if _, err := Lock(short, name, func() { told++ }); !errors.Is(err, context.DeadlineExceeded) || told != 1 {
		t.Errorf("while taken: got %v, told %d times", err, told)
	}
	unlock()
	again, err := Lock(context.Background(), name, func() { told++ })
	if err != nil || told != 1 {
		t.Fatalf("after unlock: %v, told %d times", err, told)
	}
	again()
}
