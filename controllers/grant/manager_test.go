// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant_test

import (
	"context"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/controllers"
	"leasehold.dev/controllers/grant"
	"leasehold.dev/internal/lapse"
	"leasehold.dev/leaderelect/lease"
)

const (
	short = 3 * time.Second
	// bound is how late a busy machine may be; less than another duration.
	bound = 2 * time.Second
)

// counter counts the looks at the Lease of each namespace: each reads it live,
// once.
type counter struct {
	mu      sync.Mutex
	looks   map[string]int
	changed chan struct{} // Closed at the next look.
}

func (c *counter) funcs() interceptor.Funcs {
	return interceptor.Funcs{Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		c.mu.Lock()
		c.looks[key.Namespace]++
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
		return w.Get(ctx, key, o, opts...)
	}}
}

func (c *counter) of(namespace string) (int, chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.looks[namespace], c.changed
}

// running is a controller in a real manager, with the caches that the product
// uses, on the real clock.
type running struct {
	api   client.WithWatch
	looks *counter
}

func start(t *testing.T) *running {
	t.Helper()
	mgr, err := ctrl.NewManager(grant.Config, ctrl.Options{
		Scheme: controllers.Scheme(), Cache: controllers.CacheOptions(),
		Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	must(t, err)
	api, err := client.NewWithWatch(grant.Config, client.Options{Scheme: controllers.Scheme()})
	must(t, err)
	counts := &counter{looks: map[string]int{}, changed: make(chan struct{})}
	r := &grant.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(),
		Leases:  interceptor.NewClient(api, counts.funcs()),
		Tracker: lapse.NewTracker(clock.RealClock{}), Clock: clock.RealClock{},
		Recorder: events.NewFakeRecorder(10000), ClusterUID: "cluster",
	}
	must(t, r.SetupWithManager(mgr))
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	return &running{api: api, looks: counts}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stage is one Lease with two candidates, a and b, under that manager.
type stage struct {
	*running
	t  *testing.T
	ns string
}

func (r *running) stage(t *testing.T, by v1alpha1.RenewedBy) *stage {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "manager-"}}
	must(t, r.api.Create(t.Context(), ns))
	s := &stage{r, t, ns.Name}
	for _, name := range []string{"a", "b"} {
		must(t, r.api.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name, Labels: map[string]string{v1alpha1.LabelLease: "ledger"}},
			Spec: corev1.PodSpec{
				SchedulingGates:               []corev1.PodSchedulingGate{{Name: v1alpha1.SchedulingGate}},
				Containers:                    []corev1.Container{{Name: "work", Image: "work"}},
				TerminationGracePeriodSeconds: ptr.To[int64](0),
			},
		}))
	}
	l := lease.New(metav1.ObjectMeta{Namespace: s.ns, Name: "ledger"}, lease.Config{
		Duration: short, RenewInterval: time.Second, TakeUp: time.Minute, TokenFloor: lease.MaxToken,
		OverlapPolicy: v1alpha1.OverlapFence, RenewedBy: by}, lease.Carry{})
	delete(l.Annotations, v1alpha1.AnnotationClosed)
	must(t, r.api.Create(t.Context(), l))
	return s
}

func (s *stage) lease() *coordinationv1.Lease {
	s.t.Helper()
	var l coordinationv1.Lease
	must(s.t, s.api.Get(s.t.Context(), client.ObjectKey{Namespace: s.ns, Name: "ledger"}, &l))
	return &l
}

// until follows the watch of a list until one of its objects is as wanted.
func until[T client.Object](s *stage, what string, list client.ObjectList, wanted func(T) bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	w, err := s.api.Watch(ctx, list, client.InNamespace(s.ns))
	must(s.t, err)
	defer w.Stop()
	for e := range w.ResultChan() {
		if o, ok := e.Object.(T); ok && wanted(o) {
			return
		}
	}
	s.t.Fatalf("never came true: %s", what)
}

// granted waits until the pod is granted and stamped.
func (s *stage) granted(name string) {
	s.t.Helper()
	until(s, name+" carries a token", &corev1.PodList{}, func(p *corev1.Pod) bool {
		return p.Name == name && p.Annotations[v1alpha1.AnnotationToken] != "" && len(p.Spec.SchedulingGates) == 0
	})
}

// renew confirms, then renews, as an agent does.
func (s *stage) renew() {
	s.t.Helper()
	l := s.lease()
	r, err := lease.Parse(l)
	must(s.t, err)
	l, err = lease.Observation{Lease: l}.Confirm(lease.Start{Holder: r.GrantHolder, Token: r.Token, Nonce: "work.boot-7.x"}, time.Now())
	must(s.t, err)
	must(s.t, s.api.Update(s.t.Context(), l))
}

// handedOver demands that the hand-over comes one duration after the last sign of
// life, and not much later.
func (s *stage) handedOver(last time.Time) {
	s.t.Helper()
	s.granted("b")
	if took := time.Since(last); took < short || took > short+bound {
		s.t.Errorf("handed over %s after the last sign of life, want %s to %s", took, short, short+bound)
	}
}

func TestInAManager(t *testing.T) {
	r := start(t)
	t.Run("cases", func(t *testing.T) {
		t.Run("renewals cause no look, and a lapse is acted on in time", r.renewals)
		t.Run("the silence of a node", r.silentNode)
		t.Run("a node's lease that is deleted", r.deletedNodeLease)
		t.Run("a pod that is not ready any more", r.notReady)
	})
}

func (r *running) renewals(t *testing.T) {
	t.Parallel()
	s := r.stage(t, v1alpha1.RenewedByAgent)
	s.granted("a")
	s.renew()
	before := s.edited("1")
	const renewals = 50
	var last time.Time
	for range renewals {
		last = time.Now()
		s.renew()
	}
	// The edit comes after all renewals in the watch, and is looked at.
	if after := s.edited("2"); after-before > 5 {
		t.Errorf("%d looks for %d renewals and one edit", after-before, renewals)
	}
	s.handedOver(last)
}

// edited edits the Lease, and returns how many looks there were when it was
// looked at for that.
func (s *stage) edited(value string) int {
	s.t.Helper()
	before, changed := s.looks.of(s.ns)
	l := s.lease()
	l.Labels["test"] = value
	must(s.t, s.api.Update(s.t.Context(), l))
	for {
		now, next := s.looks.of(s.ns)
		if now > before {
			return now
		}
		select {
		case <-changed:
		case <-s.t.Context().Done():
			s.t.Fatal("the edit was not looked at")
		}
		changed = next
	}
}

// onNode lets the kubelet of a node of its own take pod a, and returns the
// node's lease.
func (s *stage) onNode() *coordinationv1.Lease {
	s.t.Helper()
	node := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "node-" + s.ns}}
	beat(s, node, s.api.Create)
	s.granted("a")
	pod := s.pod("a")
	must(s.t, s.api.SubResource("binding").Create(s.t.Context(), pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node.Name}}))
	s.ready(corev1.ConditionTrue)
	return node
}

func beat[O any](s *stage, node *coordinationv1.Lease, write func(context.Context, client.Object, ...O) error) {
	s.t.Helper()
	node.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
	must(s.t, write(s.t.Context(), node))
}

func (s *stage) pod(name string) *corev1.Pod {
	s.t.Helper()
	var p corev1.Pod
	must(s.t, s.api.Get(s.t.Context(), client.ObjectKey{Namespace: s.ns, Name: name}, &p))
	return &p
}

func (s *stage) ready(status corev1.ConditionStatus) {
	s.t.Helper()
	p := s.pod("a")
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	must(s.t, s.api.Status().Update(s.t.Context(), p))
}

// beats renews the node's lease for longer than the duration, and demands that
// the term outlives it. It returns when the last beat was begun.
func (s *stage) beats(node *coordinationv1.Lease) (last time.Time) {
	s.t.Helper()
	ticks := time.NewTicker(short / 6)
	defer ticks.Stop()
	for range 9 {
		<-ticks.C
		last = time.Now()
		beat(s, node, s.api.Update)
	}
	if p := s.pod("b"); len(p.Spec.SchedulingGates) != 1 {
		s.t.Fatal("handed over while the node was heard of")
	}
	return last
}

func (r *running) silentNode(t *testing.T) {
	t.Parallel()
	s := r.stage(t, v1alpha1.RenewedByKubelet)
	s.handedOver(s.beats(s.onNode()))
}

func (r *running) deletedNodeLease(t *testing.T) {
	t.Parallel()
	s := r.stage(t, v1alpha1.RenewedByKubelet)
	node := s.onNode()
	s.beats(node)
	last := time.Now()
	must(t, s.api.Delete(t.Context(), node))
	s.handedOver(last)
}

func (r *running) notReady(t *testing.T) {
	t.Parallel()
	s := r.stage(t, v1alpha1.RenewedByKubelet)
	node := s.onNode()
	s.beats(node)
	last := time.Now()
	s.ready(corev1.ConditionFalse)
	ctx, cancel := context.WithCancel(t.Context())
	var beating sync.WaitGroup
	beating.Go(func() {
		ticks := time.NewTicker(short / 6)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
				node.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
				if err := s.api.Update(t.Context(), node); err != nil {
					t.Error(err)
				}
			}
		}
	})
	s.handedOver(last)
	cancel()
	beating.Wait()
}
