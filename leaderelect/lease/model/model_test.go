// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import "testing"

func TestInvariantsHold(t *testing.T) {
	for _, c := range configurations() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			r := run(c, 0)
			t.Logf("%-22s %9d states, depth %3d, %6.2f s", c.Name, r.States, r.Depth, r.Took.Seconds())
			if r.Broken != holds {
				t.Fatal(explain(r))
			}
		})
	}
}
