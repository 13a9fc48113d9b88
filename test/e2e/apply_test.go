// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"leasehold.dev/api/v1alpha1"
)

// latency is how far beyond its bound a figure may lie here: the bounds are for
// a machine that does nothing else.
const latency = 3

// testApply: a job that is applied comes to be held, and its token is the same
// wherever it is shown.
func testApply(t *testing.T) {
	w := newWorld(t)
	const name = "writer"
	applied := time.Now()
	w.apply(w.build(name, duration(15)))
	holder := w.held(name, 0, time.Minute)
	held := time.Now()
	pod := w.pod(holder.Pod, 10*time.Second, "run", func(p *corev1.Pod) error {
		if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Running == nil {
			return errors.New("its container does not run")
		}
		return nil
	})
	w.measured("apply to held", held.Sub(applied))
	// The start is known to the second only, rounded down.
	w.within(latency*2*time.Second, "start of the container to held", held.Sub(pod.Status.ContainerStatuses[0].State.Running.StartedAt.Time))

	token := strconv.FormatInt(holder.Token, 10)
	started := w.working(name, 0, 10*time.Second)
	want := map[string]string{"pod": token, "lease": token, "work": token, "holder": holder.Pod + "_" + string(pod.UID)}
	got := map[string]string{
		"pod":    pod.Annotations[v1alpha1.AnnotationToken],
		"lease":  w.lease(name).Annotations[v1alpha1.AnnotationToken],
		"work":   strconv.FormatInt(started.Token, 10),
		"holder": started.Holder,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tokens (-status +shown):\n%s", diff)
	}
	w.tokenFromAnnotation(pod)
	w.columns(name, holder.Pod, token)
}

// apply applies a job as a user would.
func (w *world) apply(job *v1alpha1.SingletonJob) {
	w.Helper()
	text, err := yaml.Marshal(job)
	if err != nil {
		w.Fatal(err)
	}
	if _, err := w.KubectlInput(w.Context(), string(text), "apply", "-f", "-"); err != nil {
		w.Fatal(err)
	}
}

func (w *world) tokenFromAnnotation(pod *corev1.Pod) {
	w.Helper()
	env := pod.Spec.Containers[0].Env
	i := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == v1alpha1.EnvToken })
	if i < 0 || env[i].ValueFrom == nil || env[i].ValueFrom.FieldRef == nil ||
		!strings.Contains(env[i].ValueFrom.FieldRef.FieldPath, v1alpha1.AnnotationToken) {
		w.Errorf("%s does not refer to the annotation: %v", v1alpha1.EnvToken, env)
	}
}

func (w *world) columns(name, pod, token string) {
	w.Helper()
	table, err := w.Kubectl(w.Context(), "-n", w.ns, "get", "sj", name)
	if err != nil {
		w.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if len(lines) != 2 {
		w.Fatalf("kubectl get sj:\n%s", table)
	}
	if diff := cmp.Diff([]string{"NAME", "HOLDER", "TOKEN", "HELD", "TRANSITIONS", "AGE"}, strings.Fields(lines[0])); diff != "" {
		w.Errorf("columns:\n%s", diff)
	}
	if diff := cmp.Diff([]string{name, pod, token, "True", "1"}, strings.Fields(lines[1])[:5]); diff != "" {
		w.Errorf("row:\n%s", diff)
	}
}

// testSlowStart: a pod that takes longer to start than the lease's duration
// comes to hold it all the same, with its first token.
func testSlowStart(t *testing.T) {
	w := newWorld(t)
	const name = "slow"
	w.create(name, duration(15), slow(40))
	holder := w.held(name, 0, 90*time.Second)
	if grants := w.seen.all()[w.recorded(name)]; len(grants) != 1 || grants[0].Token != holder.Token {
		t.Errorf("grants: %v, want that of token %d alone", grants, holder.Token)
	}
	w.working(name, 0, 10*time.Second)
}
