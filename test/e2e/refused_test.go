// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"leasehold.dev/api/v1alpha1"
)

// testTakeUp: a pod that cannot start is taken back, the job says why, and holds
// once its template is mended.
func testTakeUp(t *testing.T) {
	for name, c := range map[string]struct {
		spoil, mend option
		why         string
	}{
		"image": {
			spoil: func(j *v1alpha1.SingletonJob) {
				j.Spec.Template.Spec.Containers[0].Image = "leasehold.dev/missing:dev"
			},
			mend: func(j *v1alpha1.SingletonJob) { j.Spec.Template.Spec.Containers[0].Image = probeImage },
			why:  "leasehold.dev/missing:dev",
		},
		"node": {
			spoil: func(j *v1alpha1.SingletonJob) {
				j.Spec.Template.Spec.NodeSelector = map[string]string{"leasehold.dev/nowhere": ""}
			},
			mend: func(j *v1alpha1.SingletonJob) { j.Spec.Template.Spec.NodeSelector = nil },
			why:  "node affinity/selector",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(name, takeUp(5), c.spoil)
			began := time.Now()
			message := w.condition(name, v1alpha1.ConditionBlocked, v1alpha1.BlockedTakeUpFailed, time.Minute)
			w.measured("create to Blocked, with 5 s to start", time.Since(began))
			if !strings.Contains(message, c.why) {
				t.Errorf("condition Blocked does not say why: want %q in %q", c.why, message)
			}
			w.change(name, c.mend)
			w.working(name, 0, time.Minute)
			w.held(name, 0, 10*time.Second)
			w.unblocked(name)
		})
	}
}

func (w *world) change(name string, do option) {
	w.Helper()
	var job v1alpha1.SingletonJob
	if err := w.Client.Get(w.Context(), w.key(name), &job); err != nil {
		w.Fatal(err)
	}
	before := job.DeepCopy()
	do(&job)
	if err := w.Client.Patch(w.Context(), &job, client.MergeFrom(before)); err != nil {
		w.Fatal(err)
	}
}

// testBadSpecs: what could never work is refused, with a word on what to change.
func testBadSpecs(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		value any
		path  []string
		want  string
	}{
		"renew-interval-too-long": {int64(10), []string{"lease", "renewIntervalSeconds"}, "lower renewIntervalSeconds or raise durationSeconds"},
		"no-command":              {containers("probe", nil), []string{"template", "spec", "containers"}, "set command on the container"},
		"zero-duration":           {int64(0), []string{"lease", "durationSeconds"}, "greater than or equal to 3"},
		"unknown-container":       {"other", []string{"container"}, "use the name of one of spec.template.spec.containers"},
		"kubelet-with-standbys":   {"Kubelet", []string{"lease", "renewedBy"}, "set standbys to 0"},
		"kubelet-too-short":       {"Kubelet", []string{"lease", "renewedBy"}, "raise durationSeconds"},
		"sidecar":                 {"Sidecar", []string{"lease", "renewedBy"}, "choose Agent"},
		"application":             {"Application", []string{"lease", "renewedBy"}, "choose Agent"},
	} {
		job := w.build(name, duration(15))
		job.Spec.Standbys = 1
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(job)
		if err != nil {
			t.Fatal(err)
		}
		if err := unstructured.SetNestedField(object, c.value, append([]string{"spec"}, c.path...)...); err != nil {
			t.Fatal(err)
		}
		delete(object, "status")
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.KubectlInput(t.Context(), string(text), "apply", "-f", "-")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: kubectl apply says %v, want it to contain %q", name, err, c.want)
		}
	}
}

func containers(name string, command []any) []any {
	c := map[string]any{"name": name, "image": probeImage}
	if command != nil {
		c["command"] = command
	}
	return []any{c}
}

// testUnmanagedLease: a Lease that Leasehold does not manage is somebody else's,
// whatever its name. The job says so and leaves it alone.
func testUnmanagedLease(t *testing.T) {
	w := newWorld(t)
	const name = "taken"
	l := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("somebody"), LeaseDurationSeconds: ptr.To[int32](1)},
	}
	if err := w.Client.Create(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	job := w.create(name, duration(3))
	w.condition(name, v1alpha1.ConditionBlocked, v1alpha1.BlockedLeaseConflict, 20*time.Second)
	w.event(name, v1alpha1.BlockedLeaseConflict)
	w.nothingNew(name, 0, 5*time.Second)
	var pods corev1.PodList
	if err := w.Client.List(t.Context(), &pods, client.InNamespace(w.ns)); err != nil || len(pods.Items) > 0 {
		t.Errorf("%d pods, want none (error %v)", len(pods.Items), err)
	}
	if err := w.Client.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	w.gone(30*time.Second, job)
	if now := w.lease(name); now.ResourceVersion != l.ResourceVersion {
		t.Errorf("the Lease was written: resourceVersion %s, want %s: %v", now.ResourceVersion, l.ResourceVersion, now)
	}
}

func (w *world) event(name, reason string) {
	w.Helper()
	w.eventually(20*time.Second, "an event "+reason, func(ctx context.Context) error {
		var list eventsv1.EventList
		if err := w.Client.List(ctx, &list, client.InNamespace(w.ns)); err != nil {
			return err
		}
		for _, e := range list.Items {
			if e.Regarding.Name == name && e.Reason == reason {
				return nil
			}
		}
		return errors.New("there is none")
	})
}
