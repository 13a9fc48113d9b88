// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/internal/holder/clock"
	"leasehold.dev/leaderelect/lease"
)

// Exit statuses of the machine's own. The rest are the work's.
const (
	// CodeNoAPI: what must be known before ending with 0 could not be learnt.
	CodeNoAPI = v1alpha1.AgentExitNoAPI
	// CodeLost: the term ended before its work did.
	CodeLost = v1alpha1.AgentExitLost
)

// Config of a machine.
type Config struct {
	// Holder is <podName>_<podUID>.
	Holder string
	// Origin names the container and the start of its first process; Random is
	// drawn anew for each term.
	Origin lease.Nonce
	Random func() string
	// Jitter returns a factor around 1 by which a pause is spread.
	Jitter func() float64
	// StopGrace is how long work may take to stop when it was asked to, before
	// it is killed.
	StopGrace time.Duration
	// ReleaseTimeout is how long a release is tried where giving up loses
	// nothing but time: the work did not succeed, or the agent was told to stop.
	ReleaseTimeout time.Duration
	// Compete makes the machine take the Lease itself; nil: it waits to be
	// granted it.
	Compete *Compete
	// Loop makes the machine wait for the next term also after a lost one.
	Loop bool
}

// goneTimeout is how long killed processes may take to vanish.
const goneTimeout = 30 * time.Second

// defaultTiming stands in where no term tells otherwise.
var defaultTiming = lease.Timing{Duration: lease.DefaultDuration(v1alpha1.RenewedByAgent),
	RenewInterval: lease.DefaultDuration(v1alpha1.RenewedByAgent) / 3}

// Machine decides for one agent. It is not safe for concurrent use.
type Machine struct {
	cfg Config
	now clock.Instant
	out []Action

	known known
	// taking is the attempt to take the Lease, between terms.
	taking *taking
	// memory is what was known of a Lease that may be gone.
	memory lease.Carry
	term   *term
	work   workState
	p99    time.Duration
	// used is the greatest token that work of this process was started with.
	used int64
	// shutdown is the exit status of an agent whose work never began, once it
	// was told to stop; 0: it was not.
	shutdown int
	exited   bool

	request *request
	// readFirst: what is known may be outdated; read before writing.
	readFirst bool
	// retryAt is when the next request may begin.
	retryAt  clock.Instant
	failures int
	// troubled: a failure was told, and no success since.
	troubled bool
	said     string
}

type workState int

const (
	workNone workState = iota
	workStarting
	workRunning
	workEnding // The command has ended; what it left is being killed.
)

type request struct {
	kind    Kind
	sent    clock.Instant
	version string
}

// New returns a machine that waits for its grant.
func New(cfg Config) *Machine { return &Machine{cfg: cfg} }

// Step takes in an event and returns what to do. After an Exit it returns
// nothing.
func (m *Machine) Step(now clock.Instant, ev Event) []Action {
	m.now, m.out = now, nil
	if m.exited {
		return nil
	}
	m.expire()
	m.take(ev)
	m.proceed()
	return m.out
}

// NextWake is when the machine wants a Tick, unless something happens before;
// the zero Instant: never.
func (m *Machine) NextWake() clock.Instant {
	var at clock.Instant
	if t := m.term; t != nil {
		at = clock.Earlier(at, m.termWake(t))
	}
	if m.term == nil && m.cfg.Compete != nil {
		at = clock.Earlier(at, m.competeWake())
	}
	if m.request == nil && !m.retryAt.Reached(m.now) {
		at = clock.Earlier(at, m.retryAt)
	}
	return at
}

// Trusted is until when the work that is running may rely on its term, unless it
// is renewed; the zero Instant: there is no such work.
func (m *Machine) Trusted() clock.Instant {
	if !m.holding() {
		return clock.Instant{}
	}
	return m.term.renewed.Add(m.term.timing.Trust())
}

func (m *Machine) take(ev Event) {
	switch ev := ev.(type) {
	case Seen:
		m.see(ev)
	case Reply:
		m.reply(ev)
	case Signal:
		m.signal(ev.Number)
	case Started:
		m.started(ev)
	case Ended:
		m.ended(ev.Code)
	case Gone:
		m.gone()
	case Measured:
		m.p99 = ev.P99
	}
}

// proceed decides from what is known, until a decision leads no further.
func (m *Machine) proceed() {
	for moved := true; moved && !m.exited; {
		term, over := m.term, m.term != nil && m.term.over
		switch {
		case m.term == nil:
			m.wait()
		case m.term.over:
			m.release()
		case m.work == workNone:
			m.takeUp()
		default:
			m.hold()
		}
		moved = m.term != term || (m.term != nil && m.term.over != over)
	}
}

func (m *Machine) emit(a Action) { m.out = append(m.out, a) }

// say emits a line, but not the same twice in a row.
func (m *Machine) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if text == m.said {
		return
	}
	m.said = text
	m.emit(Say{Text: text})
}

func (m *Machine) exit(code int) {
	m.exited = true
	m.emit(Exit{Code: code})
}

func (m *Machine) timing() lease.Timing {
	switch {
	case m.term != nil:
		return m.term.timing
	case m.cfg.Compete != nil:
		return m.cfg.Compete.Timing
	}
	return defaultTiming
}

// send begins a request unless one is under way or it is too early after a
// failure. build makes the Lease to Update from the newest observation; it is
// not called where a Read must come first.
func (m *Machine) send(kind Kind, build func(lease.Observation) (*coordinationv1.Lease, error)) {
	if m.request != nil || !m.retryAt.Reached(m.now) {
		return
	}
	r := &request{kind: kind, sent: m.now}
	var l *coordinationv1.Lease
	if m.readFirst || m.known.lease == nil {
		r.kind = Read
	} else {
		var err error
		if l, err = build(lease.Observation{Lease: m.known.lease}); err != nil {
			m.failed(kind, err)
			return
		}
		r.version = l.ResourceVersion
	}
	m.request = r
	m.emit(Send{Kind: r.kind, Lease: l, Timeout: m.timing().RequestTimeout()})
}

// reply takes in the end of the request under way.
func (m *Machine) reply(ev Reply) {
	r := m.request
	m.request = nil
	switch {
	case r == nil:
		return // Not ours: nothing is under way.
	case m.rivalReply(r, ev):
	case ev.Failure == Absent: // Of an Update, too, that is the newest state.
		m.absent(r.sent)
	case ev.Failure == Conflict && m.failures == 0:
		m.readFirst = true
		m.failures++
	case ev.Failure != None:
		m.failed(r.kind, ev.Err)
	case r.kind == Read:
		m.readFirst = false
		m.see(Seen{Lease: ev.Lease, Live: true, Asked: r.sent})
	case older(r.version, ev.Lease.ResourceVersion) != yes:
		m.failed(r.kind, fmt.Errorf("the reply's resourceVersion %s does not follow %s", ev.Lease.ResourceVersion, r.version))
	default:
		m.succeeded(r, ev.Lease)
	}
}

func (m *Machine) succeeded(r *request, l *coordinationv1.Lease) {
	if m.troubled {
		m.say("%s succeeded", r.kind)
	}
	m.failures, m.troubled = 0, false
	m.see(Seen{Lease: l, Live: true, Asked: r.sent})
	if r.kind == Confirm || r.kind == Renew || r.kind == Take {
		m.renewed(r.sent)
	}
}

// failed sets the pause before the next try, which begins with a Read.
func (m *Machine) failed(kind Kind, err error) {
	if !m.troubled {
		m.troubled = true
		m.say("%s: %v; trying again", kind, err)
	}
	m.readFirst = true
	pause := m.timing().RetryInterval()
	if !m.holding() {
		pause = min(pause<<min(m.failures, 6), max(pause, 5*time.Second))
	}
	m.failures++
	m.retryAt = m.now.Add(time.Duration(float64(pause) * m.cfg.Jitter()))
}
