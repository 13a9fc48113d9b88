// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"fmt"
	"strconv"
	"strings"
)

// Nonce names one start of work: <container>.<boot>-<ticks>.<random>. Boot and
// ticks say when the first process of the container started, on the clock of
// the machine's boot: ticks of two containers compare only within one boot.
type Nonce struct {
	// Container is the container that the work runs in.
	Container string
	// Boot identifies the machine's boot.
	Boot string
	// Ticks is the start of the container's first process, in clock ticks
	// since boot.
	Ticks uint64
	// Random tells apart two starts in one container.
	Random string
}

func (n Nonce) String() string {
	return fmt.Sprintf("%s.%s-%d.%s", n.Container, n.Boot, n.Ticks, n.Random)
}

// ParseNonce reads what String wrote.
func ParseNonce(s string) (Nonce, error) {
	parts := strings.Split(s, ".")
	if len(parts) != 3 {
		return Nonce{}, fmt.Errorf("nonce %q: want <container>.<boot>-<ticks>.<random>", s)
	}
	dash := strings.LastIndex(parts[1], "-") // A boot's ID may be a UUID, with dashes of its own.
	if dash <= 0 || parts[0] == "" || parts[2] == "" {
		return Nonce{}, fmt.Errorf("nonce %q: want <container>.<boot>-<ticks>.<random>", s)
	}
	boot, ticks := parts[1][:dash], parts[1][dash+1:]
	n, err := strconv.ParseUint(ticks, 10, 64)
	if err != nil {
		return Nonce{}, fmt.Errorf("nonce %q: ticks: %w", s, err)
	}
	return Nonce{Container: parts[0], Boot: boot, Ticks: n, Random: parts[2]}, nil
}

// Outlived reports whether other is proven to be over by the existence of n: an
// earlier run of the same container on the same boot, whose first process, and
// so all of its processes, had ended before n's first process started. A second
// agent started by exec beside the first sees the same first process and is not
// entitled.
func (n Nonce) Outlived(other Nonce) bool {
	return n.Container == other.Container && n.Boot == other.Boot && other.Ticks < n.Ticks
}

// TerminationMessage is the line that an agent writes into its container's
// termination message before it confirms. A later terminated status that
// carries it proves the end of this very start.
func TerminationMessage(nonce string) string { return "leasehold.dev/started=" + nonce }
