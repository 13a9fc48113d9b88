// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package leaderelect_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/internal/testenv/apiserver"
	"leasehold.dev/internal/testenv/faultproxy"
	"leasehold.dev/leaderelect/lease"
)

func TestMain(m *testing.M) {
	if os.Getenv(envChild) != "" {
		os.Exit(child())
	}
	os.Exit(apiserver.Main(m))
}

// Candidates of a contest behave by these timings.
const (
	duration = 3 * time.Second
	interval = time.Second
	// length is how long faults last.
	length = 8 * time.Second
)

// leading is one call of a candidate's function.
type leading struct {
	who   string
	token int64
	began time.Time
	// sure is when the candidate was last about to be told that it leads.
	sure  time.Time
	ended time.Time
}

// history is what the candidates of one contest did.
type history struct {
	mu  sync.Mutex
	all []*leading
}

// lead records a call that lasts until ctx is done. leads is asked all the time.
func (h *history) lead(ctx context.Context, who string, token int64, leads func() bool) {
	l := &leading{who: who, token: token, began: time.Now()}
	h.mu.Lock()
	h.all = append(h.all, l)
	h.mu.Unlock()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var sure time.Time
	for {
		if asked := time.Now(); leads() {
			sure = asked // It was told so then or later.
		}
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
		}
		break
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	l.sure, l.ended = sure, time.Now()
}

// leader is the place of who leads now, or did last.
func (h *history) leader() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.all) == 0 {
		return ""
	}
	at, _, _ := strings.Cut(h.all[len(h.all)-1].who, "-")
	return at
}

// judgement is what a history shows.
type judgement struct {
	terms int
	// doubled: two were sure to lead at once. overlaps: the function of one ran
	// after that of a later one had begun. regressions: a token that is not greater
	// than an earlier one.
	doubled, overlaps, regressions []string
}

func (h *history) judge() judgement {
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.SortFunc(h.all, func(a, b *leading) int { return a.began.Compare(b.began) })
	j := judgement{terms: len(h.all)}
	for i, a := range h.all {
		for _, b := range h.all[i+1:] {
			pair := fmt.Sprintf("%s (token %d) and %s (token %d)", a.who, a.token, b.who, b.token)
			if d := a.sure.Sub(b.began); d > 0 {
				j.doubled = append(j.doubled, fmt.Sprintf("%s for %s", pair, d))
			}
			if d := a.ended.Sub(b.began); d > 0 {
				j.overlaps = append(j.overlaps, fmt.Sprintf("%s for %s", pair, d))
			}
			if a.token != 0 && b.token != 0 && a.token >= b.token {
				j.regressions = append(j.regressions, pair)
			}
		}
	}
	return j
}

// candidate leads as long as it can, again and again, until ctx is done.
type candidate func(ctx context.Context, config *rest.Config, namespace, name, who string, h *history)

// contest is one random schedule of faults for some candidates.
type contest struct {
	t         testing.TB
	seed      uint64
	rng       *rand.Rand
	namespace string
	name      string
	leases    coordinationclient.LeaseInterface
	history   history
	// proxies of the candidates, by their places.
	proxies map[string]*faultproxy.Proxy
}

func place(i int) string { return fmt.Sprint("c", i) }

func newContest(t testing.TB, namespace string, seed uint64) *contest {
	return &contest{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 3)), namespace: namespace, name: fmt.Sprint("contest-", seed),
		proxies: map[string]*faultproxy.Proxy{},
		leases:  kubernetes.NewForConfigOrDie(apiserver.Config(t)).CoordinationV1().Leases(namespace)}
}

// run lets the candidates compete, each behind a proxy of its own with faults of
// its own, while people meddle.
func (c *contest) run(candidates ...candidate) judgement {
	c.free()
	ctx, cancel := context.WithTimeout(c.t.Context(), length)
	defer cancel()
	var faults, running sync.WaitGroup
	var cancels []context.CancelFunc
	for i, f := range candidates {
		p := faultproxy.New(c.t, apiserver.Config(c.t))
		c.proxies[place(i)] = p
		own, stop := context.WithCancel(c.t.Context())
		cancels = append(cancels, stop)
		lives := &lives{own: own}
		rng := rand.New(rand.NewPCG(c.seed, uint64(i)+10))
		running.Go(func() {
			lives.live(place(i), func(ctx context.Context, who string) { f(ctx, p.Config(), c.namespace, c.name, who, &c.history) })
		})
		faults.Go(func() { phases(ctx, rng, p) })
		often := rand.New(rand.NewPCG(c.seed, uint64(i)+20))
		faults.Go(func() {
			for wait(ctx, time.Duration(often.Int64N(int64(length)))) {
				lives.stop()
			}
		})
	}
	faults.Go(func() { c.meddle(ctx) })
	faults.Go(func() { c.isolate(ctx, rand.New(rand.NewPCG(c.seed, 4))) })
	faults.Wait()
	for _, stop := range cancels {
		stop()
	}
	running.Wait()
	return c.history.judge()
}

// free makes a Lease that somebody has held and released, so that a contest does
// not begin with a wait.
func (c *contest) free() {
	c.t.Helper()
	setup := lease.Rival{Holder: "setup", Nonce: "s.s-1.s", Issuer: "contest", Timing: lease.Timing{Duration: duration, RenewInterval: interval}}
	l, err := c.leases.Create(c.t.Context(), lease.NewCompeting(metav1.ObjectMeta{Name: c.name}, setup, lease.Carry{}), metav1.CreateOptions{})
	steps := []func(lease.Observation) (*coordinationv1.Lease, error){
		func(o lease.Observation) (*coordinationv1.Lease, error) { return o.Take(setup, time.Now()) },
		func(o lease.Observation) (*coordinationv1.Lease, error) {
			r, err := lease.Parse(o.Lease)
			if err != nil {
				return nil, err
			}
			return o.Release(lease.Start{Holder: "setup", Token: r.Token, Nonce: setup.Nonce}, v1alpha1.OutcomeStopped)
		},
	}
	for _, step := range steps {
		if err == nil {
			l, err = step(lease.Observation{Lease: l, Age: time.Hour})
		}
		if err == nil {
			l, err = c.leases.Update(c.t.Context(), l, metav1.UpdateOptions{})
		}
	}
	if err != nil {
		c.t.Error(err)
	}
}

// lives runs a candidate's processes one after the other.
type lives struct {
	own context.Context
	mu  sync.Mutex
	end context.CancelFunc
}

func (l *lives) live(who string, run func(ctx context.Context, who string)) {
	for n := 1; l.own.Err() == nil; n++ {
		ctx, end := context.WithCancel(l.own)
		l.mu.Lock()
		l.end = end
		l.mu.Unlock()
		run(ctx, fmt.Sprint(who, "-", n))
		end()
	}
}

// stop asks the present process to stop in order.
func (l *lives) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != nil {
		l.end()
	}
}

// phases changes what the proxy does, until ctx is done.
func phases(ctx context.Context, rng *rand.Rand, p *faultproxy.Proxy) {
	var mu sync.Mutex // Requests share the generator.
	n := func(most int) int {
		mu.Lock()
		defer mu.Unlock()
		return rng.IntN(most)
	}
	some := func(most time.Duration) time.Duration { return time.Duration(n(int(most))) }
	for ctx.Err() == nil {
		p.Set(nil)
		switch kind := n(100); {
		case kind < 50: // All is well.
		case kind < 65:
			p.Set(func(*http.Request) faultproxy.Fault {
				return faultproxy.Fault{Before: some(1500 * time.Millisecond), After: some(1500 * time.Millisecond)}
			})
		case kind < 80:
			p.Set(func(*http.Request) faultproxy.Fault {
				return faultproxy.Fault{After: some(300 * time.Millisecond), Lost: faultproxy.Lost(n(8))} // Half of them pass.
			})
		case kind < 90:
			p.Set(func(*http.Request) faultproxy.Fault {
				return faultproxy.Fault{Status: []int{429, 500, 503, 504}[n(4)]}
			})
		default:
			p.Break()
		}
		wait(ctx, 300*time.Millisecond+some(2500*time.Millisecond))
	}
	p.Set(nil)
}

// isolate cuts whoever leads off, at random times, for so long that its term ends
// and that of another begins.
func (c *contest) isolate(ctx context.Context, rng *rand.Rand) {
	for wait(ctx, time.Duration(rng.Int64N(int64(length/2)))) {
		p := c.proxies[c.history.leader()]
		if p == nil {
			continue
		}
		p.Freeze()
		wait(ctx, 2*duration-time.Second)
		p.Thaw()
	}
}

// meddle is people who do to the Lease what they should not.
func (c *contest) meddle(ctx context.Context) {
	for wait(ctx, time.Duration(c.rng.IntN(10000))*time.Millisecond) {
		l, err := c.leases.Get(ctx, c.name, metav1.GetOptions{})
		if err != nil {
			continue
		}
		switch c.rng.IntN(4) {
		case 0, 1:
			l.Labels = map[string]string{"leasehold.dev/competing": "true", "touched": fmt.Sprint(c.rng.Int())}
			_, _ = c.leases.Update(ctx, l, metav1.UpdateOptions{})
		case 2:
			_ = c.leases.Delete(ctx, c.name, metav1.DeleteOptions{})
		case 3:
			c.steal(ctx, l)
		}
	}
}

// steal writes a holder that does not exist.
func (c *contest) steal(ctx context.Context, l *coordinationv1.Lease) {
	thief, transitions := "thief", int32(1)
	if l.Spec.LeaseTransitions != nil {
		transitions += *l.Spec.LeaseTransitions
	}
	when := metav1.NowMicro()
	l.Spec.HolderIdentity, l.Spec.LeaseTransitions, l.Spec.RenewTime = &thief, &transitions, &when
	_, _ = c.leases.Update(ctx, l, metav1.UpdateOptions{})
}

// wait reports whether the time has passed before the end of ctx.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
