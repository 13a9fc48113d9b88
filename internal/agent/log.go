// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package agent

import (
	"fmt"
	"io"
)

// logLines is how many lines may wait for a standard error that is not read.
const logLines = 64

// logger writes lines from a goroutine of its own: whoever reads our standard
// error must not be able to hold up a renewal. Lines that nobody reads are lost.
type logger struct {
	lines chan string
	quit  chan struct{}
	done  chan struct{}
}

func newLogger(w io.Writer) *logger {
	l := &logger{lines: make(chan string, logLines), quit: make(chan struct{}), done: make(chan struct{})}
	go l.write(w)
	return l
}

func (l *logger) write(w io.Writer) {
	defer close(l.done)
	for {
		select {
		case line := <-l.lines:
			_, _ = io.WriteString(w, line)
		case <-l.quit:
			for len(l.lines) > 0 {
				_, _ = io.WriteString(w, <-l.lines)
			}
			return
		}
	}
}

func (l *logger) printf(format string, args ...any) {
	select {
	case l.lines <- "leasehold: " + fmt.Sprintf(format, args...) + "\n":
	default:
	}
}

// close waits until the lines so far are written, or until giveUp delivers.
// Later lines are lost.
func (l *logger) close(giveUp <-chan struct{}) {
	close(l.quit)
	select {
	case <-l.done:
	case <-giveUp:
	}
}
