// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"leasehold.dev/api/v1alpha1"
)

// diagram is the state diagram of the package documentation: the phases that
// each step may lead to from each phase.
var diagram = map[string]map[Phase][]Phase{
	"grant":    {Free: {Granted}, Live: {Granted}, Disputed: {Granted}},
	"confirm":  {Granted: {Live}, Live: {Live}},
	"renew":    {Live: {Live}},
	"release":  {Granted: {Free}, Live: {Free}, Disputed: {Free, Disputed}},
	"outlived": {Live: {Free}, Disputed: {Free, Disputed}},
	"withdraw": {Granted: {Free}},
	"end":      {Live: {Free}, Disputed: {Free}},
	"request":  {Live: {Live}},
	"close":    {Free: {Free}, Granted: {Granted}, Live: {Live}, Disputed: {Disputed}},
}

// machine makes random steps and edits on one Lease.
type machine struct {
	t      *rapid.T
	l      *coordinationv1.Lease
	at     int64
	tokens []int64
}

func TestRandomSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{t: t, at: rapid.Int64Range(1, 1000).Draw(t, "version")}
		m.create(Carry{})
		t.Repeat(map[string]func(*rapid.T){
			"": m.check, "grant": m.grant, "confirm": m.confirm, "renew": m.renew, "release": m.release,
			"outlived": m.outlived, "withdraw": m.withdraw, "end": m.end, "request": m.request, "close": m.close,
			"configure": m.configure, "foreign": m.foreign, "re-create": m.recreate,
		})
	})
}

func (m *machine) create(carry Carry) {
	m.l = New(metav1.ObjectMeta{Name: "lease"}, drawConfig(m.t), carry)
	m.at++
	m.l.UID = "uid"
	m.l.ResourceVersion = itoa(m.at)
}

func drawConfig(t *rapid.T) Config {
	seconds := rapid.Int64Range(3, 60).Draw(t, "duration")
	return Config{
		Duration: time.Duration(seconds) * time.Second, RenewInterval: time.Second, TakeUp: time.Minute, LockDelay: time.Second,
		OverlapPolicy: rapid.SampledFrom([]v1alpha1.OverlapPolicy{v1alpha1.OverlapFence, v1alpha1.OverlapForbid, v1alpha1.OverlapTolerate}).Draw(t, "policy"),
		RenewedBy: rapid.SampledFrom([]v1alpha1.RenewedBy{v1alpha1.RenewedByAgent, v1alpha1.RenewedBySidecar,
			v1alpha1.RenewedByApplication, v1alpha1.RenewedByKubelet}).Draw(t, "renewedBy"),
		MinToken:       rapid.Int64Range(0, 2000).Draw(t, "minToken"),
		TokenFloor:     rapid.Int64Range(0, 3000).Draw(t, "tokenFloor"),
		CloseOnSuccess: rapid.Bool().Draw(t, "toCompletion"),
	}
}

func (m *machine) record(l *coordinationv1.Lease) Record {
	r, err := Parse(l)
	if err != nil {
		m.t.Fatalf("the protocol wrote a Lease that it cannot read: %v", err)
	}
	return r
}

func (m *machine) look() Observation {
	return Observation{Lease: m.l, Age: time.Duration(rapid.IntRange(0, 70).Draw(m.t, "age")) * time.Second}
}

func (m *machine) start() Start {
	r := m.record(m.l)
	return Start{
		Holder: rapid.SampledFrom([]string{podA, podB, r.GrantHolder}).Draw(m.t, "holder"),
		Token:  rapid.SampledFrom([]int64{r.Token, r.Token, r.Token - 1}).Draw(m.t, "token"),
		Nonce:  rapid.SampledFrom([]string{nonceA, "work.boot-8.y", r.Started}).Draw(m.t, "nonce"),
	}
}

// take checks what holds for every step, and stores what the step returned.
func (m *machine) take(step string, before, returned *coordinationv1.Lease, err error) {
	if d := cmp.Diff(before, m.l); d != "" {
		m.t.Fatalf("%s changed the observed object:\n%s", step, d)
	}
	if err != nil {
		return
	}
	if returned.UID != m.l.UID || returned.ResourceVersion != m.l.ResourceVersion {
		m.t.Fatalf("%s returned uid %s version %s, not the observation's", step, returned.UID, returned.ResourceVersion)
	}
	from, to := m.record(m.l).Phase(), m.record(returned).Phase()
	if !slices.Contains(diagram[step][from], to) {
		m.t.Fatalf("%s led from %s to %s", step, from, to)
	}
	m.store(returned)
}

func (m *machine) store(l *coordinationv1.Lease) {
	was := m.record(m.l)
	m.at += rapid.Int64Range(1, 3).Draw(m.t, "versions")
	m.l = l.DeepCopy()
	m.l.ResourceVersion = itoa(m.at)
	if now := m.record(m.l); was.Closed == v1alpha1.ClosedCompleted && now.Closed != v1alpha1.ClosedCompleted {
		m.t.Fatalf("completed lease is %q again", now.Closed)
	}
}

func (m *machine) grant(t *rapid.T) {
	o, before := m.look(), m.l.DeepCopy()
	if rapid.Bool().Draw(t, "open") && m.record(m.l).Closed == v1alpha1.ClosedNew {
		m.store(without(m.l, v1alpha1.AnnotationClosed))
		return
	}
	l, err := o.Grant(podB, issuer, m.basis(), epoch)
	m.take("grant", before, l, err)
	if err != nil {
		return
	}
	token := m.record(l).Token
	if n := len(m.tokens); n > 0 && token <= m.tokens[n-1] {
		t.Fatalf("token %d after %v", token, m.tokens)
	}
	m.tokens = append(m.tokens, token)
}

func (m *machine) basis() Basis {
	r := m.record(m.l)
	return Basis{
		Kind:    rapid.SampledFrom([]BasisKind{ByRelease, ByLapse, ByDeath, ByVouching}).Draw(m.t, "basis"),
		Holder:  rapid.SampledFrom([]string{r.GrantHolder, podA}).Draw(m.t, "proof about"),
		Started: rapid.SampledFrom([]string{r.Started, nonceA}).Draw(m.t, "proof started"), Succeeded: rapid.Bool().Draw(m.t, "succeeded"),
	}
}

func (m *machine) confirm(t *rapid.T) {
	o, s, before := m.look(), m.start(), m.l.DeepCopy()
	l, err := o.Confirm(s, epoch)
	m.take("confirm", before, l, err)
	if err != nil || s.Nonce == "" {
		return
	}
	again, err := Observation{Lease: m.l}.Confirm(s, epoch)
	if err != nil || m.record(again).Started != s.Nonce {
		t.Fatalf("a second Confirm of the same start: %v", err)
	}
}

func (m *machine) renew(t *rapid.T) {
	o, before := m.look(), m.l.DeepCopy()
	now := epoch.Add(time.Duration(rapid.IntRange(-100, 100).Draw(t, "clock")) * time.Second)
	print := Fingerprint(before)
	l, err := o.Renew(m.start(), now)
	m.take("renew", before, l, err)
	if err == nil && Fingerprint(l) == print {
		t.Fatal("a renewal that observers cannot see")
	}
}

func (m *machine) release(t *rapid.T) {
	outcome := rapid.SampledFrom([]v1alpha1.Outcome{v1alpha1.OutcomeSucceeded, v1alpha1.OutcomeFailed}).Draw(t, "outcome")
	o, before := m.look(), m.l.DeepCopy()
	l, err := o.Release(m.start(), outcome)
	m.take("release", before, l, err)
}

func (m *machine) outlived(t *rapid.T) {
	mine := Nonce{Container: "work", Boot: "boot", Ticks: rapid.Uint64Range(6, 9).Draw(t, "ticks"), Random: "r"}
	o, before := m.look(), m.l.DeepCopy()
	l, err := o.ReleaseOutlived(m.start(), mine)
	m.take("outlived", before, l, err)
}

func (m *machine) withdraw(*rapid.T) {
	before := m.l.DeepCopy()
	l, err := m.look().Withdraw()
	m.take("withdraw", before, l, err)
}

func (m *machine) end(*rapid.T) {
	before := m.l.DeepCopy()
	l, err := m.look().End(m.basis())
	m.take("end", before, l, err)
}

func (m *machine) request(*rapid.T) {
	before := m.l.DeepCopy()
	l, err := m.look().RequestEnd()
	m.take("request", before, l, err)
}

func (m *machine) close(t *rapid.T) {
	reason := rapid.SampledFrom([]v1alpha1.Closed{"", v1alpha1.ClosedSuspended, v1alpha1.ClosedCompleted}).Draw(t, "reason")
	before := m.l.DeepCopy()
	l, err := m.look().SetClosed(reason)
	m.take("close", before, l, err)
}

func (m *machine) configure(t *rapid.T) {
	l, print := m.l.DeepCopy(), Fingerprint(m.l)
	c := drawConfig(t)
	c.TokenFloor = max(c.TokenFloor, m.record(l).Config.TokenFloor) // An owner's record never falls.
	c.Write(l)
	l.Labels["edited"] = "yes"
	if Fingerprint(l) != print {
		t.Fatal("an edit of labels and configuration keeps a dead holder's lease alive")
	}
	m.store(l)
}

func (m *machine) foreign(t *rapid.T) {
	l := m.l.DeepCopy()
	if rapid.Bool().Draw(t, "wipe") && l.Spec.RenewTime != nil {
		wipe(l)
	} else {
		seize(l)
	}
	m.store(l)
}

func (m *machine) recreate(*rapid.T) {
	r := m.record(m.l)
	carry := Carry{Token: r.Token, Transitions: r.Transitions, Longest: r.Longest}
	if r.Open() {
		carry.Holder = r.GrantHolder
	}
	if r.Closed != v1alpha1.ClosedCompleted { // Otherwise its owner would not make it again.
		m.create(carry)
	}
}

// check: nobody but the holder's start passes Check.
func (m *machine) check(t *rapid.T) {
	r := m.record(m.l)
	for _, s := range []Start{m.start(), m.start(), {}} {
		mine := s.Holder == r.GrantHolder && s.Token == r.Token && s.Nonce == r.Started
		live := r.Phase() == Live
		if err := s.Check(r); (err == nil) != (mine && live) {
			t.Fatalf("Check of %+v on %+v: %v", s, r, err)
		}
	}
}

func without(l *coordinationv1.Lease, key string) *coordinationv1.Lease {
	l = l.DeepCopy()
	delete(l.Annotations, key)
	return l
}
