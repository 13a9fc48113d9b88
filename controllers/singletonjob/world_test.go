// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package singletonjob

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// world is a namespace of the API server with one job's reconciler, and the
// hands of everybody else: the grant controller, the agent, the kubelet.
type world struct {
	testing.TB
	ns       string
	name     string
	clock    *clocktesting.FakePassiveClock
	recorder *events.FakeRecorder
	// writes are the reconciler's, as "verb Kind/name".
	writes []string
	// crash, if set, is asked before and after each write of the reconciler; an
	// error is what the reconciler gets instead of the answer.
	crash func(write string, after bool) error
}

var errCrash = errors.New("crashed")

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{TB: t, name: "work", clock: clocktesting.NewFakePassiveClock(time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)),
		recorder: events.NewFakeRecorder(1000)}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "sj-"}}
	w.must(api.Create(t.Context(), ns))
	w.ns = ns.Name
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: w.ns, Name: name}
}

// create creates the job, as change makes it.
func (w *world) create(change func(*v1alpha1.SingletonJob)) {
	w.Helper()
	job := &v1alpha1.SingletonJob{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: w.name}}
	job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "example.com/app:1", Command: []string{"/app", "serve"}}}
	if change != nil {
		change(job)
	}
	w.must(api.Create(w.Context(), job))
}

func toCompletion(policy corev1.RestartPolicy) func(*v1alpha1.SingletonJob) {
	return func(job *v1alpha1.SingletonJob) { job.Spec.Template.Spec.RestartPolicy = policy }
}

func (w *world) job() *v1alpha1.SingletonJob {
	w.Helper()
	job := &v1alpha1.SingletonJob{}
	w.must(api.Get(w.Context(), w.key(w.name), job))
	return job
}

func (w *world) edit(change func(*v1alpha1.SingletonJob)) {
	w.Helper()
	job := w.job()
	change(job)
	w.must(api.Update(w.Context(), job))
}

func (w *world) lease() *coordinationv1.Lease {
	w.Helper()
	l := &coordinationv1.Lease{}
	w.must(api.Get(w.Context(), w.key(w.name), l))
	return l
}

func (w *world) record() lease.Record {
	w.Helper()
	r, err := lease.Parse(w.lease())
	w.must(err)
	return r
}

func (w *world) exists(object client.Object, name string) bool {
	w.Helper()
	err := api.Get(w.Context(), w.key(name), object)
	w.must(client.IgnoreNotFound(err))
	return err == nil
}

func (w *world) pod(name string) *corev1.Pod {
	w.Helper()
	pod := &corev1.Pod{}
	w.must(api.Get(w.Context(), w.key(name), pod))
	return pod
}

// pods names the pods, those being deleted with a minus sign.
func (w *world) pods() []string {
	w.Helper()
	var list corev1.PodList
	w.must(api.List(w.Context(), &list, client.InNamespace(w.ns)))
	names := []string{}
	for _, pod := range list.Items {
		name := pod.Name
		if pod.DeletionTimestamp != nil {
			name = "-" + name
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// reconciler returns a reconciler whose reads come from reader, whose live
// reads are live, and whose writes are counted.
func (w *world) reconciler(reader client.WithWatch) *Reconciler {
	return &Reconciler{
		Client: w.counted(reader), APIReader: api, Clock: w.clock, Recorder: w.recorder,
		AgentImage: "example.com/leasehold-agent:1", ClusterUID: "cluster",
	}
}

func (w *world) reconcile() (ctrl.Result, error) { return w.reconcileWith(w.reconciler(api)) }

func (w *world) reconcileWith(r *Reconciler) (ctrl.Result, error) {
	return r.Reconcile(w.Context(), ctrl.Request{NamespacedName: w.key(w.name)})
}

// settle reconciles until there is nothing to write.
func (w *world) settle() ctrl.Result {
	w.Helper()
	for range 30 {
		before := len(w.writes)
		result, err := w.reconcile()
		if err != nil && !errors.Is(err, errCrash) {
			w.Fatal(err)
		}
		if len(w.writes) == before && err == nil {
			return result
		}
	}
	w.Fatalf("does not settle; last writes: %s", strings.Join(w.writes[max(len(w.writes)-10, 0):], ", "))
	return ctrl.Result{}
}

// counted counts writes and lets them crash.
func (w *world) counted(c client.WithWatch) client.Client {
	write := func(verb string, o client.Object, do func() error) error {
		kinds, _, err := api.Scheme().ObjectKinds(o)
		if err != nil {
			return err
		}
		return w.write(fmt.Sprintf("%s %s/%s", verb, kinds[0].Kind, o.GetName()), do)
	}
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return write("create", o, func() error { return api.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return write("update", o, func() error { return api.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return write("patch", o, func() error { return api.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return write("delete", o, func() error { return api.Delete(ctx, o, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			return write("update "+sub, o, func() error { return api.SubResource(sub).Update(ctx, o, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return w.write(fmt.Sprintf("apply %T", o), func() error { return api.Apply(ctx, o, opts...) })
		},
	})
}

func (w *world) write(what string, do func() error) error {
	w.writes = append(w.writes, what)
	if w.crash != nil {
		if err := w.crash(what, false); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return err
	}
	if w.crash != nil {
		return w.crash(what, true)
	}
	return nil
}

// The grant controller's hands.

// grant grants the lease to a pod, and stamps it.
func (w *world) grant(name string) {
	w.Helper()
	pod := w.pod(name)
	o := lease.Observation{Lease: w.lease()}
	l, err := o.Grant(lease.Holder(pod.Name, string(pod.UID)), "cluster/"+w.ns+"/"+w.name, lease.Basis{Kind: lease.ByRelease}, w.clock.Now())
	w.must(err)
	w.must(api.Update(w.Context(), l))
	before := pod.DeepCopy()
	pod.Annotations[v1alpha1.AnnotationToken] = l.Annotations[v1alpha1.AnnotationToken]
	pod.Spec.SchedulingGates = nil
	w.must(api.Patch(w.Context(), pod, client.MergeFrom(before)))
}

// confirmFor confirms for a pod in which nothing does.
func (w *world) confirmFor(name string) {
	w.Helper()
	l, err := lease.Observation{Lease: w.lease()}.ConfirmFor(string(w.pod(name).UID), w.clock.Now())
	w.must(err)
	w.must(api.Update(w.Context(), l))
}

// lapse ends the term by lapse.
func (w *world) lapse() {
	w.Helper()
	o := lease.Observation{Lease: w.lease(), Age: time.Hour}
	l, err := o.End(lease.Basis{Kind: lease.ByLapse})
	w.must(err)
	w.must(api.Update(w.Context(), l))
}

// The agent's hands.

const nonce = "app.boot-1.x"

func (w *world) start() lease.Start {
	r := w.record()
	return lease.Start{Holder: r.GrantHolder, Token: r.Token, Nonce: nonce}
}

func (w *world) confirm() {
	w.Helper()
	l, err := lease.Observation{Lease: w.lease()}.Confirm(w.start(), w.clock.Now())
	w.must(err)
	w.must(api.Update(w.Context(), l))
}

func (w *world) release(outcome v1alpha1.Outcome) {
	w.Helper()
	l, err := lease.Observation{Lease: w.lease()}.Release(w.start(), outcome)
	w.must(err)
	w.must(api.Update(w.Context(), l))
}

// The kubelet's and the scheduler's hands.

func (w *world) run(name string) {
	w.Helper()
	pod := w.pod(name)
	if pod.Spec.NodeName == "" {
		binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"}}
		w.must(api.SubResource("binding").Create(w.Context(), pod, binding))
	}
	w.status(name, corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
}

func (w *world) end(name string, code int32) {
	w.Helper()
	phase := corev1.PodSucceeded
	if code != 0 {
		phase = corev1.PodFailed
	}
	w.status(name, phase, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}})
}

func (w *world) status(name string, phase corev1.PodPhase, state corev1.ContainerState) {
	w.Helper()
	pod := w.pod(name)
	pod.Status.Phase = phase
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Image: "example.com/app:1", State: state}}
	w.must(api.Status().Update(w.Context(), pod))
}

// reap ends the deletion of a pod as a kubelet does.
func (w *world) reap(name string) {
	w.Helper()
	w.must(client.IgnoreNotFound(api.Delete(w.Context(), w.pod(name), client.GracePeriodSeconds(0))))
}

// hold brings a pod to hold the lease and work.
func (w *world) hold(name string) {
	w.Helper()
	w.grant(name)
	w.run(name)
	w.confirm()
	w.settle()
}

// condition renders a condition as "Status/Reason".
func (w *world) condition(kind string) string {
	w.Helper()
	for _, c := range w.job().Status.Conditions {
		if c.Type == kind {
			return string(c.Status) + "/" + c.Reason
		}
	}
	return "absent"
}

func (w *world) wantCondition(kind, want string) {
	w.Helper()
	if got := w.condition(kind); got != want {
		w.Errorf("condition %s is %s, want %s: %+v", kind, got, want, w.job().Status.Conditions)
	}
}

func (w *world) wantPods(want ...string) {
	w.Helper()
	if got := w.pods(); !slices.Equal(got, want) {
		w.Errorf("pods are %v, want %v", got, want)
	}
}

// history renders the history, newest first.
func (w *world) history() string {
	w.Helper()
	var terms []string
	for _, t := range w.job().Status.History {
		terms = append(terms, t.Pod+" "+t.Reason)
	}
	return strings.Join(terms, ", ")
}

func (w *world) wantHistory(want string) {
	w.Helper()
	if got := w.history(); got != want {
		w.Errorf("history is %q, want %q", got, want)
	}
}

// told drains the events and returns their reasons.
func (w *world) told() []string {
	var reasons []string
	for {
		select {
		case e := <-w.recorder.Events:
			reasons = append(reasons, strings.Fields(e)[1])
		default:
			return reasons
		}
	}
}
