// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// MaxToken is the greatest token ever granted. Stores keep tokens in signed
// 64-bit columns; the room above it lets an operator raise a mark.
const MaxToken = int64(1) << 62

// nextToken returns max(observed resourceVersion, last token + 1, minToken).
//
// The resourceVersion is the one that the grant's write is conditioned on, so
// the write itself moves past it and two grants never see the same. It rises
// across deletion of the Lease and restarts (KEP-5504); "last token + 1" keeps
// the order where the token had been raised above it.
//
// A token above the observed resourceVersion is not protected by it. It must be
// in the owner's record (floor) first, so that it survives the Lease.
func nextToken(observed string, last, minToken, floor int64) (int64, error) {
	if _, err := resourceversion.CompareResourceVersion(observed, observed); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNoToken, err)
	}
	version, err := strconv.ParseInt(observed, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: resourceVersion %s does not fit 63 bits", ErrNoToken, observed)
	}
	if last >= MaxToken {
		return 0, fmt.Errorf("%w: the last token %d is the greatest possible", ErrNoToken, last)
	}
	token := max(version, last+1, minToken)
	if token > MaxToken {
		return 0, fmt.Errorf("%w: it would be %d, above the greatest possible %d", ErrNoToken, token, MaxToken)
	}
	if token > version && token > floor {
		return 0, fmt.Errorf("%w: %d is above the resourceVersion %d, and the owner has recorded %d only",
			ErrNotRecorded, token, version, floor)
	}
	return token, nil
}
