// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"errors"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
	"leasehold.dev/leaderelect/lease/death"
)

// Functions of package lease that the model calls.
const (
	callGrant uint8 = iota
	callWithdraw
	callEnd
	callOpen
	callConfirmFor
	callCheck
	callConfirm
	callRenew
	callRelease
	callOutlive
)

// call is a call of package lease, and all that its answer depends on.
type call struct {
	Function  uint8
	View      view
	Age       uint8
	Who       who // The candidate, or the agent's holder.
	Token     num
	Nonce     nonce
	Basis     lease.BasisKind
	Succeeded bool
	Outcome   uint8
}

// Classes of answers.
const (
	refused uint8 = iota // With another error.
	done
	notLive
	otherStart
)

type answer struct {
	View  view
	Class uint8
}

// ask calls the real function, once for each different call.
func (m *model) ask(c call) answer {
	if a, ok := m.answers[c]; ok {
		return a
	}
	l, err := m.evaluate(c)
	a := answer{Class: classOf(err)}
	if err == nil && l != nil {
		a.View = toView(l, c.View)
	}
	m.answers[c] = a
	return a
}

func classOf(err error) uint8 {
	var other *lease.OtherStartError
	switch {
	case err == nil:
		return done
	case errors.Is(err, lease.ErrNotLive):
		return notLive
	case errors.As(err, &other):
		return otherStart
	}
	return refused
}

func (m *model) evaluate(c call) (*coordinationv1.Lease, error) {
	config := m.configOf(c.View)
	m.bend(&c, &config)
	o := lease.Observation{Lease: m.toLease(c.View, config), Age: ticks(c.Age)}
	if m.Without == longestDuration && o.Age >= ticks(c.View.Duration) {
		o.Age = time.Hour
	}
	start := lease.Start{Holder: holderName(c.Who), Token: int64(c.Token), Nonce: nonceText(c.Nonce)}
	basis := lease.Basis{Kind: c.Basis, Holder: holderName(c.View.Grantee), Started: nonceText(c.View.Started), Succeeded: c.Succeeded}
	switch c.Function {
	case callGrant:
		return m.grant(o, c.Who, basis)
	case callWithdraw:
		return o.Withdraw()
	case callEnd:
		return o.End(basis)
	case callOpen:
		return o.SetClosed("")
	case callConfirmFor:
		return o.ConfirmFor(uidOf(c.Who), epoch)
	case callConfirm:
		return o.Confirm(start, epoch)
	case callRenew:
		return o.Renew(start, epoch)
	case callRelease:
		return o.Release(start, outcomeText[c.Outcome])
	case callOutlive:
		return o.ReleaseOutlived(start, m.outliving(c.Nonce))
	}
	return nil, check(o, start)
}

// outliving is the nonce with which an agent claims to outlive another start.
func (m *model) outliving(n nonce) lease.Nonce {
	mine := realNonce(n)
	if m.SecondContainer && n >= nonceOf(agents-1, 0) {
		mine.Ticks += 10
		if m.Without != onlyOwnContainer {
			mine.Container = "other"
		}
	}
	return mine
}

var outcomeText = [...]v1alpha1.Outcome{v1alpha1.OutcomeStopped, v1alpha1.OutcomeFailed, v1alpha1.OutcomeSucceeded}

func check(o lease.Observation, start lease.Start) error {
	r, err := lease.Parse(o.Lease)
	if err != nil {
		return err
	}
	return start.Check(r)
}

// bend changes a call as code would make it that leaves out a rule.
func (m *model) bend(c *call, config *lease.Config) {
	if c.Function <= callEnd {
		m.bendManager(c, config)
	} else {
		m.bendAgent(c, config)
	}
}

func (m *model) bendManager(c *call, config *lease.Config) {
	empty := c.View.Holder == nobody && c.View.open()
	switch {
	case m.Without == emptyIsNotFree && empty:
		c.View.Released = c.View.Token
	case m.Without == wipedStaysHolders && empty:
		config.OverlapPolicy = v1alpha1.OverlapFence
	case m.Without == deathSuccessCloses:
		c.Succeeded = false
	case m.Without == endIsOnlyRequested && c.Function == callWithdraw:
		c.View.Started = noNonce
	}
}

func (m *model) bendAgent(c *call, config *lease.Config) {
	switch {
	case m.Without == successCloses && c.Function == callRelease:
		config.CloseOnSuccess = false
	case m.Without == sidecarOutlivesNobody && c.Function == callOutlive:
		config.RenewedBy = v1alpha1.RenewedByAgent
	case m.Without == onlyOutlivedIsReleased && c.Function == callOutlive:
		c.Function, c.Nonce = callRelease, c.View.Started
	}
}

// print numbers the fingerprints of package lease.
func (m *model) print(v view) int {
	v = view{UID: v.UID, Holder: v.Holder, Stamp: v.Stamp, Token: v.Token, Started: v.Started, Released: v.Released}
	if n, ok := m.prints[v]; ok {
		return n
	}
	text := lease.Fingerprint(m.toLease(v, lease.Config{}))
	n, ok := m.texts[text]
	if !ok {
		n = len(m.texts) + 1
		m.texts[text] = n
	}
	m.prints[v] = n
	return n
}

// create calls lease.New.
func (m *model) create(carry owner) view {
	before := view{Configured: m.Duration}
	known := lease.Carry{Token: int64(max(carry.Token, carry.Floor)), Holder: holderName(carry.Holder)}
	if known.Token > 0 {
		known.Transitions = 3
	}
	v := toView(lease.New(metav1.ObjectMeta{Name: "lease"}, m.configOf(before), known), before)
	v.Floor = carry.Floor
	if m.Without == bornClosed {
		v.Closed = notClosed
	}
	return v
}

type deathCall struct {
	Report          report
	Bound, Deleting bool
	Started         nonce
}

// judge calls death.Judge on the pod as the store has it.
func (m *model) judge(p *pod, started nonce) lease.Basis {
	c := deathCall{p.Report, !p.Gated, p.Deleting, started}
	if m.Without == deathOfThisStart && c.Report.State != waiting {
		c.Report.Message, c.Report.LastMsg = started, started
	}
	if b, ok := m.proofs[c]; ok {
		return b
	}
	proof := death.Judge(m.toPod(c), nonceText(started))
	b := lease.Basis{Succeeded: proof.Succeeded}
	if proof.Dead {
		b.Kind = lease.ByDeath
	}
	m.proofs[c] = b
	return b
}

func (m *model) toPod(c deathCall) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: m.Restart, Containers: []corev1.Container{{Name: "work"}}}}
	if c.Bound {
		p.Spec.NodeName = "node"
	}
	if c.Deleting {
		p.DeletionTimestamp = &metav1.Time{Time: epoch}
	}
	s := corev1.ContainerStatus{Name: "work"}
	switch c.Report.State {
	case running:
		s.State.Running = &corev1.ContainerStateRunning{}
	case terminated:
		s.State.Terminated = ended(c.Report.Exit, c.Report.Message)
	}
	if c.Report.Before {
		s.LastTerminationState.Terminated = ended(c.Report.LastExit, c.Report.LastMsg)
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{s}
	return p
}

func ended(exit uint8, message nonce) *corev1.ContainerStateTerminated {
	t := &corev1.ContainerStateTerminated{ExitCode: int32(exit)}
	if message != noNonce {
		t.Message = lease.TerminationMessage(nonceText(message))
	}
	return t
}
