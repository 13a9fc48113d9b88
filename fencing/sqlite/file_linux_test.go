// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import "testing"

func TestNetworkTypes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		magic int64
		want  bool
	}{
		"nfs":                       {0x6969, true},
		"cifs":                      {0xff534d42, true},
		"cifs as a negative number": {0xff534d42 - 1<<32, true},
		"ext4":                      {0xef53, false},
		"xfs":                       {0x58465342, false},
		"btrfs":                     {0x9123683e, false},
		"tmpfs":                     {0x01021994, false},
		"overlay":                   {0x794c7630, false},
	} {
		if got := isNetworkType(tt.magic); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
