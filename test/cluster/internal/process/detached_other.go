// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package process

import (
	"os"
	"syscall"
)

// gentle does not exist here: ending is always at once.
var gentle = os.Kill

func detached() *syscall.SysProcAttr { return nil }
