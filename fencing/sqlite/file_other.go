// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package sqlite

// onNetwork is not known here.
func onNetwork(string) (bool, error) { return false, nil }
