// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderelect_test

const envChild = "LEADERELECT_TEST_CHILD"

func child() int { return 0 }
