// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/internal/lapse"
	"leasehold.dev/leaderelect/lease"
	"leasehold.dev/test/api/apiserver"
)

const (
	term   = 15 * time.Second
	takeUp = 300 * time.Second
	nonce  = "work.boot-7.x"
)

// world is one Lease, "ledger", and its pods, in a namespace of its own on the
// real API server, with a clock that only the test moves.
type world struct {
	t     *testing.T
	api   client.WithWatch
	clock *testingclock.FakeClock
	key   types.NamespacedName
}

func newWorld(t *testing.T) *world {
	t.Helper()
	scheme, err := apiserver.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.NewWithWatch(Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "grant-"}}
	if err := api.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return &world{t: t, api: api, clock: testingclock.NewFakeClock(time.Unix(1_800_000_000, 0)),
		key: types.NamespacedName{Namespace: ns.Name, Name: "ledger"}}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// instance is a controller that has just started, with what stands between it
// and the API server. Its cache is the API itself unless funcs say otherwise.
func (w *world) instance(funcs ...interceptor.Funcs) *Reconciler {
	c := w.api
	for _, f := range funcs {
		c = interceptor.NewClient(c, f)
	}
	return &Reconciler{Client: c, Leases: c, APIReader: c, Tracker: lapse.NewTracker(w.clock), Clock: w.clock,
		Recorder: events.NewFakeRecorder(1000), ClusterUID: "cluster"}
}

func (w *world) look(r *Reconciler) (ctrl.Result, error) {
	return r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: w.key})
}

// reconcile looks once and demands that nothing fails.
func (w *world) reconcile(r *Reconciler) ctrl.Result {
	w.t.Helper()
	result, err := w.look(r)
	w.must(err)
	return result
}

// settle looks until a look writes nothing and asks for no other soon.
func (w *world) settle(r *Reconciler) {
	w.t.Helper()
	for range 20 {
		before := w.versions()
		if result := w.reconcile(r); result.RequeueAfter == 0 && before == w.versions() {
			return
		}
	}
	w.t.Fatal("it does not settle")
}

// versions tells whether anything was written.
func (w *world) versions() (all string) {
	var pods corev1.PodList
	w.must(w.api.List(w.t.Context(), &pods, client.InNamespace(w.key.Namespace)))
	for _, p := range pods.Items {
		all += p.Name + "@" + p.ResourceVersion + " "
	}
	return all + w.lease().ResourceVersion
}

type leaseEdit func(*coordinationv1.Lease)

func note(key, value string) leaseEdit {
	return func(l *coordinationv1.Lease) { l.Annotations[key] = value }
}

var (
	forbid  = note(v1alpha1.AnnotationOverlapPolicy, string(v1alpha1.OverlapForbid))
	kubelet = note(v1alpha1.AnnotationRenewedBy, string(v1alpha1.RenewedByKubelet))
)

func (w *world) createLease(edits ...leaseEdit) {
	w.t.Helper()
	l := lease.New(metav1.ObjectMeta{Namespace: w.key.Namespace, Name: w.key.Name}, lease.Config{
		Duration: term, RenewInterval: term / 3, TakeUp: takeUp, LockDelay: term, TokenFloor: lease.MaxToken,
		OverlapPolicy: v1alpha1.OverlapFence, RenewedBy: v1alpha1.RenewedByAgent}, lease.Carry{})
	delete(l.Annotations, v1alpha1.AnnotationClosed)
	for _, e := range edits {
		e(l)
	}
	w.must(w.api.Create(w.t.Context(), l))
}

func (w *world) lease() *coordinationv1.Lease {
	w.t.Helper()
	var l coordinationv1.Lease
	if err := w.api.Get(w.t.Context(), w.key, &l); client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	return &l
}

func (w *world) record() lease.Record {
	w.t.Helper()
	r, err := lease.Parse(w.lease())
	w.must(err)
	return r
}

// edit writes the Lease as people or foreign electors do.
func (w *world) edit(edits ...leaseEdit) {
	w.t.Helper()
	l := w.lease()
	for _, e := range edits {
		e(l)
	}
	w.must(w.api.Update(w.t.Context(), l))
}

type podEdit func(*corev1.Pod)

func cold(p *corev1.Pod) {
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.SchedulingGate}}
}

func onNode(name string) podEdit { return func(p *corev1.Pod) { p.Spec.NodeName = name } }

func ours(p *corev1.Pod) {
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "SingletonJob",
		Name: "job", UID: "job-uid", Controller: &yes}}
}

// createPod creates a candidate, cold unless it has a node; then it runs.
func (w *world) createPod(name string, edits ...podEdit) *corev1.Pod {
	w.t.Helper()
	seconds := int64(0)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: name, Labels: map[string]string{v1alpha1.LabelLease: w.key.Name, "app": name}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "work", Image: "work"}}, RestartPolicy: corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: &seconds},
	}
	for _, e := range edits {
		e(p)
	}
	w.must(w.api.Create(w.t.Context(), p))
	if p.Spec.NodeName != "" {
		w.report(p, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, true)
	}
	return p
}

// report writes what a kubelet would.
func (w *world) report(p *corev1.Pod, state corev1.ContainerState, ready bool) {
	w.t.Helper()
	p = w.pod(p.Name)
	p.Status.Phase = corev1.PodRunning
	if state.Terminated != nil {
		p.Status.Phase = corev1.PodFailed
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "work", Image: "work", State: state}}
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	w.must(w.api.Status().Update(w.t.Context(), p))
}

func died(exit int32) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: exit}}
}

// pod reads a pod; nil: it is gone.
func (w *world) pod(name string) *corev1.Pod {
	w.t.Helper()
	var p corev1.Pod
	err := w.api.Get(w.t.Context(), types.NamespacedName{Namespace: w.key.Namespace, Name: name}, &p)
	if apierrors.IsNotFound(err) {
		return nil
	}
	w.must(err)
	return &p
}

// act does a holder's step until it is not in conflict.
func (w *world) act(step func(lease.Observation, lease.Start) (*coordinationv1.Lease, error)) {
	w.t.Helper()
	for {
		r := w.record()
		l, err := step(lease.Observation{Lease: w.lease()}, lease.Start{Holder: r.GrantHolder, Token: r.Token, Nonce: nonce})
		w.must(err)
		err = w.api.Update(w.t.Context(), l)
		if !apierrors.IsConflict(err) {
			w.must(err)
			return
		}
	}
}

func (w *world) confirm() {
	w.t.Helper()
	w.act(func(o lease.Observation, s lease.Start) (*coordinationv1.Lease, error) {
		return o.Confirm(s, w.clock.Now())
	})
}

func (w *world) release(outcome v1alpha1.Outcome) {
	w.t.Helper()
	w.act(func(o lease.Observation, s lease.Start) (*coordinationv1.Lease, error) { return o.Release(s, outcome) })
}

// held demands that the pod holds the lease, and carries its token and no gate.
func (w *world) held(by string) lease.Record {
	w.t.Helper()
	r, p := w.record(), w.pod(by)
	if p == nil || !r.Open() || r.GrantHolder != lease.Holder(p.Name, string(p.UID)) || r.Holder != r.GrantHolder {
		w.t.Fatalf("%s does not hold the lease: %+v", by, r)
	}
	if got := p.Annotations[v1alpha1.AnnotationToken]; got != strconv.FormatInt(r.Token, 10) || len(p.Spec.SchedulingGates) > 0 {
		w.t.Fatalf("%s carries token %q of %d and gates %v", by, got, r.Token, p.Spec.SchedulingGates)
	}
	return r
}

// waits demands that the pod still waits for its first grant.
func (w *world) waits(name string) {
	w.t.Helper()
	p := w.pod(name)
	if p.Annotations[v1alpha1.AnnotationToken] != "" || len(p.Spec.SchedulingGates) != 1 {
		w.t.Fatalf("%s was let go: token %q, gates %v", name, p.Annotations[v1alpha1.AnnotationToken], p.Spec.SchedulingGates)
	}
}

// spoken returns the reasons of the events that the instance has told.
func spoken(r *Reconciler) (all []string) {
	recorder := r.Recorder.(*events.FakeRecorder)
	for {
		select {
		case e := <-recorder.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

// errLost is what the caller sees of a request or reply that the network lost.
var errLost = errors.New("connection lost")

// onWrite calls f around each write.
func onWrite(f func(write func() error) error) interceptor.Funcs {
	return interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return f(func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return f(func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return f(func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, s client.Object, opts ...client.SubResourceCreateOption) error {
			return f(func() error { return c.SubResource(sub).Create(ctx, o, s, opts...) })
		},
	}
}
