// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package message writes into the termination message of a container which start
// of the work it ran, so that the kubelet's report of its end proves the end of
// that start and of no other.
package message

import (
	"bytes"
	"errors"
	"os"
	"slices"

	"leasehold.dev/leaderelect/lease"
)

// DefaultPath is the termination message where a container's
// terminationMessagePath says nothing else.
const DefaultPath = "/dev/termination-log"

// Append appends the line that names this start to the termination message.
// The kubelet made the file and reads its last 4096 bytes when the container
// ends; what the command writes there stays. It does nothing where the line is
// there already.
func Append(path, nonce string) error {
	line := []byte(lease.TerminationMessage(nonce))
	have, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for have := range bytes.Lines(have) {
		if bytes.Equal(bytes.TrimSuffix(have, []byte("\n")), line) {
			return nil
		}
	}
	text := slices.Concat(line, []byte{'\n'})
	if len(have) > 0 && have[len(have)-1] != '\n' {
		text = slices.Concat([]byte{'\n'}, text)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
