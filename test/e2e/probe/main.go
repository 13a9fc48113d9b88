// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// The probe is the worker of the end-to-end tests. It records each start of work
// and signs of life in PostgreSQL (DATABASE_URL), so that what ran, and when,
// does not depend on what any status says.
//
//	probe work -job namespace/name …   work under a lease
//	probe sleep 40s                    an init container that takes its time
//	probe signal 7 KILL                send a signal within the container
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

func main() {
	born := time.Now()
	if len(os.Args) < 2 {
		fail(errors.New("usage: probe work|sleep|signal …"))
	}
	var code int
	var err error
	switch arguments := os.Args[2:]; os.Args[1] {
	case "work":
		code, err = work(born, arguments)
	case "sleep":
		err = sleep(arguments)
	case "signal":
		err = signalProcess(arguments)
	default:
		err = fmt.Errorf("unknown command %q", os.Args[1])
	}
	if err != nil {
		fail(err)
	}
	os.Exit(code)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "probe:", err)
	os.Exit(3)
}

func sleep(arguments []string) error {
	if len(arguments) != 1 {
		return errors.New("usage: probe sleep <duration>")
	}
	d, err := time.ParseDuration(arguments[0])
	if err != nil {
		return err
	}
	<-time.After(d)
	return nil
}

var signals = map[string]syscall.Signal{"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT}

func signalProcess(arguments []string) error {
	if len(arguments) != 2 || signals[arguments[1]] == 0 {
		return errors.New("usage: probe signal <pid> KILL|TERM|STOP|CONT")
	}
	pid, err := strconv.Atoi(arguments[0])
	if err != nil || pid < 2 {
		return fmt.Errorf("process %q: %w", arguments[0], err)
	}
	return syscall.Kill(pid, signals[arguments[1]])
}
