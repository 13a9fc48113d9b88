// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

// Package netns opens sockets in the network namespace of another process.
package netns

import "errors"

// Do says that there are no network namespaces here.
func Do(int, func() error) error {
	return errors.New("network namespaces exist on Linux only")
}
