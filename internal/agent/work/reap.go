// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package work

import (
	"errors"
	"syscall"
	"time"
)

// rescan is how often killing is repeated until nothing is left: a process may
// have been adopted since.
const rescan = 20 * time.Millisecond

func (r *Runner) reapLoop() {
	for {
		select {
		case <-r.stop:
			return
		case <-r.chld:
			r.reap()
		}
	}
}

// reap collects the children that have ended, and reports whether any is left.
func (r *Runner) reap() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil: // ECHILD: there are no children.
			return false
		case pid == 0:
			return true
		}
		if w := r.current.Load(); w != nil && pid == w.pid && !w.reaped {
			w.reaped = true
			w.ended <- exitCode(status)
		}
	}
}

func exitCode(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// clear kills what the command left behind, in its process group and beyond,
// until nothing is left.
func (r *Runner) clear(w *run) {
	defer r.current.Store(nil)
	if w.pid == 0 {
		return
	}
	again := time.NewTicker(rescan)
	defer again.Stop()
	for {
		r.Signal(syscall.SIGKILL)
		killDescendants()
		if !r.reap() || !left(w.pid) {
			return
		}
		<-again.C
	}
}
