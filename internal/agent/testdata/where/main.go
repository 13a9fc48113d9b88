// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Where tells what kind of container it runs in.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Println("user", os.Getuid())
	if err := os.WriteFile("/x", nil, 0o600); err != nil {
		fmt.Println("read-only")
	}
	if _, err := os.Stat("/bin/sh"); os.IsNotExist(err) {
		fmt.Println("no shell")
	}
}
