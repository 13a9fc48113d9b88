// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/internal/agent"
	"leasehold.dev/leaderelect/lease"
)

func TestHandOverBetweenTwoAgents(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	first, a := c.held(normal(), "signals")
	b := startAgent(t, c.options("b"), "signals")
	if got := a.line("ready")[1]; got != strconv.FormatInt(first, 10) {
		t.Errorf("token of the first: %s, want %d", got, first)
	}
	b.says("waiting for the lease")
	a.signal(syscall.SIGTERM)
	a.wantExit(7)
	second := c.grant("b")
	if got := b.line("ready")[1]; got != strconv.FormatInt(second, 10) || second <= first {
		t.Errorf("token of the second: %s, want %d, above %d", got, second, first)
	}
}

func TestSuccessEndsTheStandbyToo(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	config := normal()
	config.CloseOnSuccess = true
	done := filepath.Join(t.TempDir(), "done")
	_, a := c.held(config, "until", done)
	b := startAgent(t, c.options("b"), "exit", "9")
	a.line("ready")
	b.says("waiting for the lease")
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a.wantExit(0)
	b.wantExit(0)
	if got := c.record().Closed; got != v1alpha1.ClosedCompleted {
		t.Errorf("closed %q", got)
	}
	startAgent(t, c.options("c"), "exit", "9").wantExit(0)
}

func TestEndRequestMakesTheHolderAStandby(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	first, a := c.held(normal(), "signals")
	a.line("ready")
	c.step(lease.Observation.RequestEnd)
	a.line("got terminated")
	eventually(t, "release", func() bool { return c.record().Released == first })
	c.wantReleased(first, v1alpha1.OutcomeStopped)
	second := c.grant("a")
	if got := a.line("ready")[1]; got != strconv.FormatInt(second, 10) {
		t.Errorf("token %s, want %d", got, second)
	}
}

func TestConcurrentEditsAreNoLoss(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	token, a := c.held(normal(), "signals")
	a.line("ready")
	begin := c.record().RenewTime
	for i := 0; c.record().RenewTime.Sub(begin) < 3*time.Second; i++ {
		c.step(func(o lease.Observation) (*coordinationv1.Lease, error) {
			l := o.Lease.DeepCopy()
			l.Labels["touched"] = strconv.Itoa(i)
			return l, nil
		})
	}
	a.signal(syscall.SIGTERM)
	a.wantExit(7)
	c.wantReleased(token, v1alpha1.OutcomeStopped)
}

func TestLeaseDeletedUnderTheHolder(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	_, a := c.held(normal(), "signals")
	a.line("ready")
	l := c.step(func(o lease.Observation) (*coordinationv1.Lease, error) {
		l := o.Lease.DeepCopy()
		l.Finalizers = nil
		return l, nil
	})
	if err := c.client.Delete(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	a.line("got terminated")
	a.wantExit(agent.ExitLost)
	if err := c.client.Get(t.Context(), keyOf(l), l); err == nil {
		t.Error("the Lease was made again")
	}
}

func TestSeizureEndsTheTermAtOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	_, a := c.held(normal(), "signals")
	a.line("ready")
	c.step(func(o lease.Observation) (*coordinationv1.Lease, error) {
		l := o.Lease.DeepCopy()
		thief := "thief"
		l.Spec.HolderIdentity = &thief
		return l, nil
	})
	a.line("got terminated")
	a.wantExit(agent.ExitLost)
	if got := c.record().Holder; got != "thief" {
		t.Errorf("holder %q: the agent wiped who seized the lease", got)
	}
}

// startedBefore confirms the grant as an earlier start in the same container
// would have, ticks before this container's first process.
func startedBefore(c *cluster, token int64, ticks uint64) {
	c.t.Helper()
	mine, err := agent.Origin("main")
	if err != nil {
		c.t.Fatal(err)
	}
	mine.Ticks -= ticks
	mine.Random = "before"
	c.step(func(o lease.Observation) (*coordinationv1.Lease, error) {
		return o.Confirm(lease.Start{Holder: lease.Holder("a", "uid-of-a"), Token: token, Nonce: mine.String()}, time.Now())
	})
}

func TestRestartedInPlace(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.create(normal())
	first := c.grant("a")
	startedBefore(c, first, 1)
	a := startAgent(t, c.options("a"), "plain")
	eventually(t, "release of the earlier start", func() bool { return c.record().Released == first })
	c.wantReleased(first, v1alpha1.OutcomeRestarted)
	second := c.grant("a")
	if got := a.line("ready")[1]; got != strconv.FormatInt(second, 10) {
		t.Errorf("token %s, want %d", got, second)
	}
}

func TestSecondAgentInOneContainerWorksUnderNoTokenOfTheFirst(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.create(normal())
	first := c.grant("a")
	startedBefore(c, first, 0)
	a := startAgent(t, c.options("a"), "plain")
	a.says("another process")
	if r := c.record(); r.Released == first {
		t.Fatal("ended a term that it has not outlived")
	}
	second := c.grantOn("a", lease.Basis{Kind: lease.ByVouching, Holder: c.record().GrantHolder, Started: c.record().Started})
	if got := a.line("ready")[1]; got != strconv.FormatInt(second, 10) {
		t.Errorf("token %s, want %d", got, second)
	}
}

// throughRelay is held, with a relay before the API server.
func (c *cluster) throughRelay(config lease.Config, work ...string) (*relay, int64, *proc) {
	c.t.Helper()
	r := newRelay(c.t, c.address())
	c.create(config)
	token := c.grant("a")
	o := c.options("a")
	o.kubeconfig = c.kubeconfig(r.address())
	return r, token, startAgent(c.t, o, work...)
}

func TestWorkIsDeadBeforeTrustEnds(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(r *relay){"frozen": (*relay).freeze, "refused": (*relay).cut} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			beat := filepath.Join(t.TempDir(), "beat")
			r, _, a := c.throughRelay(short(), "stubborn", beat)
			pid := a.line("ready")[0]
			begin := c.record().RenewTime
			eventually(t, "renewals", func() bool { return c.record().RenewTime.After(begin) })
			fail(r)
			eventually(t, "death of the work", func() bool { return !alive(pid) })
			last, err := os.Stat(beat)
			if err != nil {
				t.Fatal(err)
			}
			// renewTime is this machine's clock when the request began.
			if ran := last.ModTime().Sub(c.record().RenewTime); ran > short().Timing().Trust() {
				t.Errorf("the work ran %s after the last renewal, trust ends after %s", ran, short().Timing().Trust())
			}
			a.wantExit(agent.ExitLost)
			r.thaw()
		})
	}
}

func TestShortFailureIsNoLoss(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(r *relay){"frozen": (*relay).freeze, "refused": (*relay).cut} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			r, token, a := c.throughRelay(normal(), "signals")
			a.line("ready")
			fail(r)
			a.says("trying again")
			r.thaw()
			begin := c.record().RenewTime
			eventually(t, "renewals", func() bool { return c.record().RenewTime.After(begin) })
			a.signal(syscall.SIGTERM)
			a.wantExit(7)
			c.wantReleased(token, v1alpha1.OutcomeStopped)
		})
	}
}

func TestSuccessIsReportedWhenTheAPIComesBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	done := filepath.Join(t.TempDir(), "done")
	r, token, a := c.throughRelay(normal(), "until", done)
	a.line("ready")
	r.cut()
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a.says("ended with status")
	r.thaw()
	a.wantExit(0)
	c.wantReleased(token, v1alpha1.OutcomeSucceeded)
}

func TestSuccessThatCannotBeReportedIsNone(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	done := filepath.Join(t.TempDir(), "done")
	r, _, a := c.throughRelay(normal(), "until", done)
	a.line("ready")
	r.cut()
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a.says("ended with status")
	c.grantOn("b", lease.Basis{Kind: lease.ByVouching, Holder: c.record().GrantHolder, Started: c.record().Started})
	r.thaw()
	a.wantExit(agent.ExitLost)
}

func TestStartWhileTheAPIIsDown(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	r := newRelay(t, c.address())
	r.cut()
	c.create(normal())
	c.grant("a")
	o := c.options("a")
	o.kubeconfig = c.kubeconfig(r.address())
	a := startAgent(t, o, "exit", "4")
	a.says("cannot watch")
	if c.record().Started != "" {
		t.Fatal("confirmed")
	}
	r.thaw()
	a.wantExit(4)
}

// freezes stops the agent alone, which is harder than a freezer that stops the
// work with it, until its deadline has passed, and lets it go on.
func freezes(t *testing.T, c *cluster, a *proc) time.Time {
	t.Helper()
	a.signal(syscall.SIGSTOP)
	eventually(t, "the deadline", func() bool { return time.Since(c.record().RenewTime) > short().Duration })
	a.signal(syscall.SIGCONT)
	return time.Now()
}

func TestFrozenAgentKillsAtOnceWhenItWakes(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	token, a := c.held(short(), "signals")
	pid := a.line("ready")[0]
	woken := freezes(t, c, a)
	eventually(t, "death of the work", func() bool { return !alive(pid) })
	t.Logf("the work was dead %s after waking", time.Since(woken))
	a.wantExit(agent.ExitLost)
	for _, l := range a.seen {
		if strings.HasPrefix(l, "got") {
			t.Errorf("the work was asked to stop, and had time to go on: %q", l)
		}
	}
	if r := c.record(); r.Released == token && r.Outcome != v1alpha1.OutcomeStopped {
		t.Errorf("released as %q", r.Outcome)
	}
}

func TestFrozenAgentThatLostItsLease(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	_, a := c.held(short(), "plain")
	a.line("ready")
	b := startAgent(t, c.options("b"), "plain")
	a.signal(syscall.SIGSTOP)
	eventually(t, "the lapse", func() bool { return time.Since(c.record().RenewTime) > short().Duration })
	token := c.grantOn("b", lease.Basis{Kind: lease.ByVouching, Holder: c.record().GrantHolder, Started: c.record().Started})
	b.line("ready")
	a.signal(syscall.SIGCONT)
	a.wantExit(agent.ExitLost)
	if r := c.record(); r.Token != token || !r.Open() {
		t.Errorf("the one that lost its lease touched the next term: %+v", r)
	}
}
