// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// New returns a clock whose timers run through suspend (CLOCK_BOOTTIME) and
// also fire when the wall clock is stepped past the deadline, as it is after a
// pause of a virtual machine (an absolute timer on CLOCK_REALTIME). Where the
// kernel offers no such timers it falls back to Portable.
func New() Clock {
	a, err := newTimers()
	if err != nil {
		return Portable()
	}
	a.Stop()
	return bootClock{}
}

type bootClock struct{}

func (bootClock) Now() Instant {
	return Instant{Elapsed: read(unix.CLOCK_BOOTTIME), Wall: read(unix.CLOCK_REALTIME)}
}

func read(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		panic(fmt.Sprintf("clock %d cannot be read: %v", id, err)) // New has seen that its timers exist.
	}
	return time.Duration(ts.Nano())
}

// NewAlarm returns an alarm of two kernel timers, or, where no more can be made
// (file descriptors), one on Go's timers.
func (bootClock) NewAlarm() Alarm {
	a, err := newTimers()
	if err != nil {
		return goAlarm()
	}
	return a
}

// goAlarm is an alarm on Go's timers whose readings are bootClock's.
func goAlarm() Alarm {
	a := &portableAlarm{now: bootClock{}.Now, c: make(chan struct{}, 1)}
	a.start()
	return a
}

type timers struct {
	c    chan struct{}
	boot *os.File
	wall *os.File

	mu sync.Mutex
}

func newTimers() (*timers, error) {
	boot, err := newTimer(unix.CLOCK_BOOTTIME)
	if err != nil {
		return nil, err
	}
	wall, err := newTimer(unix.CLOCK_REALTIME)
	if err != nil {
		_ = boot.Close()
		return nil, err
	}
	t := &timers{c: make(chan struct{}, 1), boot: boot, wall: wall}
	go t.forward(boot)
	go t.forward(wall)
	return t, nil
}

func newTimer(clock int) (*os.File, error) {
	fd, err := unix.TimerfdCreate(clock, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("create timer on clock %d: %w", clock, err)
	}
	return os.NewFile(uintptr(fd), "timerfd"), nil
}

// forward runs until the timer is closed.
func (t *timers) forward(f *os.File) {
	var expirations [8]byte
	for {
		if _, err := f.Read(expirations[:]); err != nil {
			return
		}
		wake(t.c)
	}
}

func (t *timers) C() <-chan struct{} { return t.c }

func (t *timers) Set(at Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if set(t.boot, at.IsZero(), at.Elapsed) != nil || set(t.wall, at.IsZero(), at.Wall) != nil {
		wake(t.c) // Let the caller look at the clock rather than sleep on.
	}
}

// set arms f for an absolute time of its clock.
func set(f *os.File, off bool, at time.Duration) error {
	var spec unix.ItimerSpec
	if !off {
		spec.Value = unix.NsecToTimespec(max(int64(at), 1)) // Zero would disarm.
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		failed = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, &spec, nil)
	})
	if err != nil {
		return err
	}
	return failed
}

func (t *timers) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.boot.Close()
	_ = t.wall.Close()
}
