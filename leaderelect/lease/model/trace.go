// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strings"
)

// trace makes the steps to a state again.
func (r *search) trace(to uint32) []moment {
	var labels []label
	for ; to != 0; to = r.parent[to] {
		labels = append([]label{unpack(r.via[to])}, labels...)
	}
	s := r.initial()
	r.simplify(&s)
	total := r.turned
	moments := []moment{{label{Kind: begins}, s}}
	for _, l := range labels {
		s = r.follow(s, l)
		shown := total.show(l)
		total = total.then(r.turned)
		after := s
		after.turn(total)
		moments = append(moments, moment{shown, after})
	}
	return moments
}

// follow makes one step.
func (r *search) follow(s state, want label) state {
	emit := r.emit
	defer func() { r.emit = emit }()
	after, found := s, false
	r.emit = func(l label, n *state) {
		if l != want || found {
			return
		}
		after, found, r.turned = *n, true, turned{}
		r.inspect(&after)
		if after.Broken == holds {
			r.simplify(&after)
		}
	}
	r.steps(&s)
	return after
}

// explain tells a counterexample, step by step, with what each step changed.
func explain(r result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, after %d steps:\n", r.Broken, len(r.Trace)-1)
	last := ""
	for i, m := range r.Trace {
		now := m.State.summary()
		if now == last {
			now = "…"
		} else {
			last = now
		}
		fmt.Fprintf(&b, "%3d  %-62s %s\n", i, m.Label, now)
	}
	return b.String()
}

// summary is one line about a state. Numbers are ranks: they are renumbered
// from step to step, so that only their order within a line says something.
func (s *state) summary() string {
	parts := []string{s.Lease.summary()}
	for i := range s.Agent {
		if g := &s.Agent[i]; g.Phase >= working {
			parts = append(parts, fmt.Sprintf("agent %d: %s, token %d, trust %d", i+1, phaseText[g.Phase], g.Token, g.Trust))
		}
	}
	for i := range s.Pod {
		p := &s.Pod[i]
		if p.Token != 0 || p.Ended != 0 || p.Work != 0 {
			parts = append(parts, fmt.Sprintf("pod %d: token %d, ended %d, work %d", i+1, p.Token, p.Ended, p.Work))
		}
	}
	for i := range s.Observer {
		if age := s.Observer[i].Age; age > 0 {
			parts = append(parts, fmt.Sprintf("age %d at controller %d", age, i+1))
		}
	}
	return strings.Join(parts, "; ")
}

var phaseText = [...]string{down: "down", idle: "idle", working: "works", over: "work ended"}

func (v *view) summary() string {
	if !v.present() {
		return "no Lease"
	}
	text := fmt.Sprintf("Lease version %d: ", v.RV)
	switch {
	case v.free():
		text += "free"
	case v.granted():
		text += fmt.Sprintf("granted to pod %d, token %d", v.Holder, v.Token)
	case v.live():
		text += fmt.Sprintf("live, pod %d, token %d", v.Holder, v.Token)
	default:
		text += fmt.Sprintf("disputed, holder %q, recorded pod %d, token %d", holderName(v.Holder), v.Grantee, v.Token)
	}
	if v.Closed != notClosed {
		text += ", closed " + string(closedText[v.Closed])
	}
	if v.Deleting {
		text += ", deleting"
	}
	return text
}
