// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"errors"
	"strconv"
	"syscall"

	coordinationv1 "k8s.io/api/coordination/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/internal/holder/clock"
	"leasehold.dev/leaderelect/lease"
)

var errTrust = errors.New("it could not be renewed in time")

// holding reports whether the command is running, or about to, in a term that
// is not lost.
func (m *Machine) holding() bool {
	return m.term != nil && m.term.lost == nil && m.running()
}

func (m *Machine) running() bool { return m.work == workStarting || m.work == workRunning }

// expire enforces the deadlines that have passed. Past Kill there is no more
// time for a polite SIGTERM.
func (m *Machine) expire() {
	t := m.term
	if t == nil || !m.running() {
		return
	}
	switch {
	case t.killAt().Reached(m.now):
		t.stopping = true
		m.lose(errTrust)
		m.kill()
	case t.stopAt().Reached(m.now):
		m.lose(errTrust)
	}
	if !t.forceAt.IsZero() && t.forceAt.Reached(m.now) {
		m.kill()
	}
}

// hold renews, and stops the work when the term or the work has to end.
func (m *Machine) hold() {
	t := m.term
	if m.work == workEnding {
		if t.giveUpAt.Reached(m.now) {
			m.say("processes of the work are still there after SIGKILL; ending without a release")
			m.exit(CodeLost)
		}
		return
	}
	if err := m.check(); err != nil {
		m.lose(err)
	}
	if t.lost == nil && !t.asked && m.known.record.EndRequested == t.start.Token {
		t.again = true
		m.say("the end of the term was requested; stopping the command")
		m.ask(syscall.SIGTERM, ErrEndRequested)
	}
	if t.lost == nil && m.renewAt().Reached(m.now) {
		m.send(Renew, func(o lease.Observation) (*coordinationv1.Lease, error) {
			return m.measured(o.Renew(t.start, m.now.Time()))
		})
	}
}

// measured adds what the critical sections took to a renewal, which costs no
// write of its own.
func (m *Machine) measured(l *coordinationv1.Lease, err error) (*coordinationv1.Lease, error) {
	if err == nil && m.p99 > 0 {
		l.Annotations[v1alpha1.AnnotationSectionP99] = strconv.FormatInt(max(m.p99.Milliseconds(), 1), 10)
	}
	return l, err
}

func (m *Machine) renewAt() clock.Instant {
	return clock.Later(m.term.renewed.Add(m.term.timing.RenewInterval), m.retryAt)
}

// renewed takes in the success of a request sent at that time. A lost term
// stays lost.
func (m *Machine) renewed(sent clock.Instant) {
	t := m.term
	if t == nil || t.over || t.lost != nil {
		return
	}
	t.renewed = sent
	if m.running() {
		m.guard()
	}
}

// guard arms the independent deadline with whatever comes first.
func (m *Machine) guard() {
	m.emit(Guard{At: clock.Earlier(m.term.killAt(), m.term.forceAt)})
}

// lose ends a term that can no longer be trusted. The work gets as much time to
// stop as a lapse would leave it, but never beyond the deadline.
func (m *Machine) lose(err error) {
	t := m.term
	if t.lost != nil || !m.running() {
		return
	}
	t.lost = err
	t.again = m.cfg.Loop && m.shutdown == 0
	m.say("the term of token %d is lost: %v; stopping the command", t.start.Token, err)
	m.force(m.now.Add(t.timing.Kill() - t.timing.Stop()))
	if !t.stopping {
		m.forward(syscall.SIGTERM, err)
	}
}

// ask begins an orderly stop: renewals go on while the work stops.
func (m *Machine) ask(signal syscall.Signal, cause error) {
	t := m.term
	t.asked = true
	if t.lost == nil {
		m.force(m.now.Add(m.cfg.StopGrace))
	}
	m.forward(signal, cause)
}

// force kills the work at that time, or before if that was decided already.
func (m *Machine) force(at clock.Instant) {
	m.term.forceAt = clock.Earlier(m.term.forceAt, at)
	m.guard()
}

// forward sends a signal to the work, once the command has been started.
func (m *Machine) forward(signal syscall.Signal, cause error) {
	t := m.term
	if signal == syscall.SIGTERM || signal == syscall.SIGINT {
		t.stopping = true
	}
	if m.work == workStarting {
		t.pending = append(t.pending, Forward{Number: signal, Cause: cause})
		return
	}
	m.emit(Forward{Number: signal, Cause: cause})
}

func (m *Machine) kill() {
	if m.term.killed {
		return
	}
	m.term.killed = true
	m.say("killing the command")
	m.emit(Kill{})
}

// signal passes a signal on to running work. TERM and INT also ask the agent to
// stop, and while no work runs, HUP and QUIT do too, as they would a command
// that has not set them up.
func (m *Machine) signal(n syscall.Signal) {
	ends := n == syscall.SIGTERM || n == syscall.SIGINT
	if !m.running() {
		if ends || n == syscall.SIGHUP || n == syscall.SIGQUIT {
			m.shutDown(n)
		}
		return
	}
	if !ends {
		m.forward(n, nil)
		return
	}
	m.shutDown(n)
	m.ask(n, nil)
}

func (m *Machine) shutDown(n syscall.Signal) {
	if m.shutdown == 0 {
		m.shutdown = 128 + int(n)
	}
	t := m.term
	if t == nil {
		return
	}
	if t.over && t.again {
		t.code = m.shutdown
	}
	t.again = false
	if t.over {
		t.giveUpAt = clock.Earlier(t.giveUpAt, m.now.Add(m.cfg.ReleaseTimeout))
	}
}

func (m *Machine) started(ev Started) {
	t := m.term
	if t == nil || m.work != workStarting {
		return
	}
	if ev.Err != nil {
		m.say("the command cannot be started: %v", ev.Err)
		m.ended(ev.Code)
		return
	}
	m.work = workRunning
	m.out = append(m.out, t.pending...)
	t.pending = nil
}

// ended takes in the end of the command. From here on nothing renews: the work
// is dead, and what it left behind is being killed.
func (m *Machine) ended(code int) {
	if !m.running() {
		return
	}
	t := m.term
	if m.work == workRunning {
		m.say("the command has ended with status %d", code)
	}
	m.work = workEnding
	t.giveUpAt = m.now.Add(goneTimeout)
	t.outcome, t.code = v1alpha1.OutcomeFailed, code
	switch {
	case t.lost != nil:
		t.outcome, t.code = v1alpha1.OutcomeStopped, CodeLost
	case t.asked:
		t.outcome = v1alpha1.OutcomeStopped
	case code == 0:
		t.outcome = v1alpha1.OutcomeSucceeded
	}
}

// gone takes in that nothing of the work is left.
func (m *Machine) gone() {
	if m.work != workEnding {
		return
	}
	m.work = workNone
	m.emit(Guard{})
	m.emit(Announce{Nonce: m.term.start.Nonce}) // The work may have written over it.
	m.finish(m.term.outcome, m.term.code)
}

// termWake is when the term next needs a look.
func (m *Machine) termWake(t *term) clock.Instant {
	var at clock.Instant
	switch {
	case m.running():
		at = t.killAt()
		if !t.forceAt.IsZero() && !t.killed {
			at = clock.Earlier(at, t.forceAt)
		}
		if t.lost != nil {
			break
		}
		at = clock.Earlier(at, t.stopAt())
		if m.request == nil {
			at = clock.Earlier(at, m.renewAt())
		}
	default:
		at = t.giveUpAt
	}
	if t.killed && m.running() {
		return clock.Instant{} // All that is left is to wait for its end.
	}
	return at
}
