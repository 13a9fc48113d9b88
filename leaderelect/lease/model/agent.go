// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package model

// The steps of agents. A paused agent is one that takes no step while others
// do: it may wake at any point, between any two of its steps.
//
// An agent reads the Lease and sends a write judged from it in one step; the
// store applies the write later, or never, and the reply arrives later still,
// or never. A request that outlives its sender's patience or its sender is one
// that was applied before, with its reply lost.

func (m *model) agentSteps(s *state, a int) {
	g := &s.Agent[a]
	if g.Phase == down {
		return
	}
	switch g.Stage {
	case sent:
		m.do(s, label{Kind: delivers, Who: a, What: g.Kind}, func(n *state) bool { return m.deliver(n, a) })
		m.do(s, label{Kind: losesRequest, Who: a, What: g.Kind}, func(n *state) bool { return forgetRequest(&n.Agent[a]) })
	case applied:
		m.do(s, label{Kind: replies, Who: a, What: g.Kind}, func(n *state) bool { return m.reply(n, a) })
		m.do(s, label{Kind: losesReply, Who: a, What: g.Kind}, func(n *state) bool { return forgetRequest(&n.Agent[a]) })
	}
	switch g.Phase {
	case idle:
		m.idleSteps(s, a)
	case working:
		m.holdSteps(s, a)
	case over:
		m.overSteps(s, a)
	}
}

// forgetRequest: the request, or its reply, is lost; the agent looks again.
func forgetRequest(g *agent) bool {
	g.Stage, g.Kind, g.Gain, g.Write = noRequest, 0, 0, view{}
	if g.Phase == idle {
		g.Token, g.Nonce = 0, noNonce
	}
	return true
}

func (m *model) ownNonce(s *state, a int) nonce { return nonceOf(a, s.Pod[podOf(a)].Run) }

// asAgent is a call about the Lease as it is, under the agent's name.
func (m *model) asAgent(s *state, a int, function uint8) call {
	g := &s.Agent[a]
	return call{Function: function, View: s.Lease, Who: whoIs(podOf(a)), Token: g.Token, Nonce: g.Nonce, Outcome: g.Outcome}
}

// send makes a request from the Lease as it is. The trust that it will give
// counts from here.
func (m *model) send(s *state, a int, what uint8, c call) {
	if s.Agent[a].Stage != noRequest {
		return
	}
	answer := m.ask(c)
	if answer.Class != done {
		return
	}
	m.do(s, label{Kind: sends, Who: a, What: what}, func(n *state) bool {
		g := &n.Agent[a]
		g.Stage, g.Kind, g.Write = sent, what, answer.View
		g.Token, g.Nonce = c.Token, c.Nonce
		if what == confirm || what == renew {
			g.Gain = m.trust(c.View)
		}
		return !m.Instant || (m.deliver(n, a) && m.reply(n, a))
	})
}

// trust is for how long a renewal from a view will be trusted.
func (m *model) trust(v view) uint8 {
	if m.Without == durationFromSpec {
		return trustOf(v.Configured)
	}
	return trustOf(v.Duration)
}

// idleSteps: an agent that finds itself granted confirms. One that finds
// another nonce under its name ends that term if it may.
func (m *model) idleSteps(s *state, a int) {
	if !s.Lease.present() || s.Lease.Grantee != whoIs(podOf(a)) {
		return
	}
	c := m.asAgent(s, a, callCheck)
	c.Token, c.Nonce = s.Lease.Token, m.ownNonce(s, a)
	switch m.ask(c).Class {
	case notLive:
		c.Function = callConfirm
		m.confirmStep(s, a, c)
	case otherStart:
		if m.Without == oneStartPerToken {
			c.Function, c.Nonce = callRenew, s.Lease.Started
			m.send(s, a, confirm, c)
			return
		}
		c.Function = callOutlive
		m.send(s, a, outlive, c)
	case done: // Its own Confirm was applied, and the reply lost.
		c.Function = callConfirm
		m.confirmStep(s, a, c)
	}
}

// confirmStep: the nonce goes into the termination message, then to the Lease.
func (m *model) confirmStep(s *state, a int, c call) {
	if m.Without == trustNeedsConfirm && s.Agent[a].Stage == noRequest {
		m.do(s, label{Kind: believes, Who: a}, func(n *state) bool {
			g := &n.Agent[a]
			g.Token, g.Nonce = c.Token, c.Nonce
			return m.begin(n, a, m.trust(c.View))
		})
		return
	}
	marked := *s
	marked.Pod[podOf(a)].File = c.Nonce
	m.send(&marked, a, confirm, c)
}

// holdSteps: renew; see that the term is over; end the work, of its own accord
// or because trust has ended.
func (m *model) holdSteps(s *state, a int) {
	if s.Lease.present() {
		m.send(s, a, renew, m.asAgent(s, a, callRenew))
	}
	if !s.Lease.present() || m.ask(m.asAgent(s, a, callCheck)).Class != done {
		m.do(s, label{Kind: seesLoss, Who: a}, func(n *state) bool { return m.endWork(n, a, stopped) })
	}
	m.do(s, label{Kind: stopsWork, Who: a}, func(n *state) bool { return m.endWork(n, a, stopped) })
	if m.ToCompletion {
		m.do(s, label{Kind: succeedsWork, Who: a}, func(n *state) bool { return m.endWork(n, a, succeeded) })
		m.do(s, label{Kind: failsWork, Who: a}, func(n *state) bool { return m.endWork(n, a, failed) })
	}
}

func (m *model) endWork(s *state, a int, outcome uint8) bool {
	g := &s.Agent[a]
	g.Phase, g.Outcome, g.Trust = over, outcome, 0
	if m.sidecar() {
		s.Pod[podOf(a)].Work = 0
	}
	return true
}

// overSteps: release; then exit, or ask again.
func (m *model) overSteps(s *state, a int) {
	g := &s.Agent[a]
	if s.Lease.present() && m.ask(m.asAgent(s, a, callRelease)).Class == done {
		m.send(s, a, release, m.asAgent(s, a, callRelease))
		if m.Without == exitZeroAfterCommit && g.Outcome == succeeded {
			m.do(s, label{Kind: exits, Who: podOf(a)}, func(n *state) bool { return m.exit(n, podOf(a), 0) })
		}
		return
	}
	if g.Stage == noRequest {
		m.do(s, label{Kind: settles, Who: a}, func(n *state) bool {
			closed := n.Lease.present() && n.Lease.Token == n.Agent[a].Token && n.Lease.Closed == closedCompleted
			return m.settle(n, a, closed)
		})
	}
}

// settle ends the agent's part in a term: it exits 0 only where the success is
// known committed. An agent of endless work asks again.
func (m *model) settle(s *state, a int, committed bool) bool {
	g := &s.Agent[a]
	switch {
	case !m.ToCompletion || g.Outcome == stopped:
		*g = agent{Phase: idle}
		return true
	case g.Outcome == succeeded && committed:
		return m.exit(s, podOf(a), 0)
	}
	return m.exit(s, podOf(a), 1)
}

// deliver: the request reaches the store.
func (m *model) deliver(s *state, a int) bool {
	g := &s.Agent[a]
	w := g.Write
	if !m.commit(s, w, byAgent) {
		return forgetRequest(g)
	}
	g.Stage, g.Write = applied, view{}
	if g.Kind == release && g.Outcome == succeeded && m.ToCompletion {
		s.Succeeded = true
	}
	return true
}

// reply: the reply reaches the agent. Work starts only after Confirm's.
func (m *model) reply(s *state, a int) bool {
	g := &s.Agent[a]
	what, gain := g.Kind, g.Gain
	g.Stage, g.Kind, g.Gain = noRequest, 0, 0
	switch {
	case what == confirm && g.Phase == idle:
		return m.begin(s, a, gain)
	case what == renew && g.Phase == working:
		g.Trust = max(g.Trust, gain)
	case what == release && g.Phase == over:
		return m.settle(s, a, true)
	case g.Phase == idle:
		g.Token, g.Nonce = 0, noNonce
	}
	return true
}

// begin starts the work of a confirmed term. A reply so late that it gives no
// trust starts nothing: the agent confirms again, which renews.
func (m *model) begin(s *state, a int, trust uint8) bool {
	g := &s.Agent[a]
	if trust == 0 {
		g.Token, g.Nonce = 0, noNonce
		return true
	}
	startWork(s, g.Token)
	g.Phase, g.Trust = working, trust
	if m.sidecar() {
		s.Pod[podOf(a)].Work = g.Token
	}
	return true
}
