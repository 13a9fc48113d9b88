// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/fencing/postgres"
	"leasehold.dev/test/e2e/evidence"
	"leasehold.dev/test/e2e/record"
)

// world is the namespace of one case, and what happens in it.
type world struct {
	*testing.T
	*suite
	ns    string
	began time.Time
	seen  *sightings
	// loose are jobs whose work may overlap: a frozen process cannot stop.
	loose map[string]bool
	// restored: the store was put back, and tokens may have been granted twice.
	restored bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	name := strings.ToLower(t.Name()[strings.LastIndexByte(t.Name(), '/')+1:])
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-" + name + "-"}}
	if err := shared.Client.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, suite: shared, began: time.Now(), loose: map[string]bool{}, ns: ns.Name}
	t.Cleanup(w.remove)
	w.seen = watchLeases(w)
	t.Cleanup(w.judge)
	// Pods cannot be made before the namespace's account is; after an outage of
	// the API server its controller has to come to lead again first.
	w.eventually(3*time.Minute, "the default service account", func(ctx context.Context) error {
		return w.Client.Get(ctx, w.key("default"), &corev1.ServiceAccount{})
	})
	return w
}

func (w *world) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: w.ns, Name: name}
}

// recorded is the name of a job in the notebook.
func (w *world) recorded(job string) string { return w.ns + "/" + job }

// measured logs a figure.
func (w *world) measured(what string, d time.Duration) {
	w.Helper()
	w.Logf("measured: %s: %.2f s", what, d.Seconds())
}

// within fails the case if a figure is beyond its limit, and logs it.
func (w *world) within(limit time.Duration, what string, d time.Duration) {
	w.Helper()
	w.measured(what, d)
	if d > limit {
		w.Errorf("%s took %.2f s, want at most %.2f s", what, d.Seconds(), limit.Seconds())
	}
}

// arm prepares the fencing mark of a job, as an operator does once.
func (w *world) arm(job string) {
	w.Helper()
	issuer := strings.Join([]string{w.clusterUID, w.ns, job}, "/")
	if err := postgres.New(w.db, w.recorded(job)).Arm(w.Context(), issuer); err != nil {
		w.Fatal(err)
	}
}

// starts returns what the notebook has on a job.
func (w *world) starts(job string) []evidence.Start {
	w.Helper()
	starts, err := record.Starts(context.WithoutCancel(w.Context()), w.db, w.recorded(job))
	if err != nil {
		w.Fatal(err)
	}
	return starts
}

// judge looks at all that was recorded of the case's jobs.
func (w *world) judge() {
	ctx := context.WithoutCancel(w.Context())
	jobs, err := record.Jobs(ctx, w.db, w.ns+"/")
	if err != nil {
		w.Error(err)
	}
	grants := w.seen.all()
	for _, job := range jobs {
		if err := w.judgeJob(ctx, job, grants[job]); err != nil {
			w.Errorf("job %s: %v", job, err)
		}
	}
	if w.Failed() {
		w.explain(ctx, jobs, grants)
	}
}

func (w *world) judgeJob(ctx context.Context, job string, grants []evidence.Grant) error {
	starts, err := record.Starts(ctx, w.db, job)
	if err != nil {
		return err
	}
	writes, err := record.Writes(ctx, w.db, job)
	if err != nil {
		return err
	}
	if w.restored {
		return evidence.NoStaleWrites(starts, writes)
	}
	errs := []error{
		evidence.TokensIncrease(grants),
		evidence.StartsInOrder(starts),
		evidence.OneStartPerToken(starts),
		evidence.StartsWereGranted(starts, grants),
		evidence.NoStaleWrites(starts, writes),
	}
	if !w.loose[job] {
		errs = append(errs, evidence.NoOverlap(starts), evidence.StoppedBeforeGrant(starts, grants))
	}
	return errors.Join(errs...)
}

// mayOverlap exempts a job whose work is frozen, or has no agent.
func (w *world) mayOverlap(job string) { w.loose[w.recorded(job)] = true }

func (w *world) explain(ctx context.Context, jobs []string, grants map[string][]evidence.Grant) {
	for _, job := range slices.Sorted(maps.Keys(grants)) {
		for _, g := range grants[job] {
			w.Logf("%s: token %d granted to %s at %s", job, g.Token, g.Holder, g.At.UTC().Format("15:04:05.000"))
		}
	}
	for _, job := range jobs {
		starts, _ := record.Starts(ctx, w.db, job)
		for _, s := range starts {
			w.Logf("%s: %v, %d beats, %d writes, %d refused", job, s, s.Beats, s.Accepted, s.Refused)
		}
	}
	since := "--since=" + time.Since(w.began).Round(time.Second).String()
	for _, args := range [][]string{
		{"-n", w.ns, "get", "sj,lease,pods", "-o", "yaml", "--show-managed-fields=false"},
		{"-n", w.ns, "get", "events", "--sort-by=.metadata.creationTimestamp"},
		{"-n", "leasehold-system", "logs", "-l", "app.kubernetes.io/component=manager", "--prefix", since, "--tail=200"},
	} {
		w.show(ctx, args...)
	}
	var pods corev1.PodList
	_ = w.Client.List(ctx, &pods, client.InNamespace(w.ns))
	for _, pod := range pods.Items {
		w.show(ctx, "-n", w.ns, "logs", pod.Name, "--all-containers", "--tail=40")
		w.show(ctx, "-n", w.ns, "logs", pod.Name, "--all-containers", "--tail=40", "--previous")
	}
}

func (w *world) show(ctx context.Context, args ...string) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := w.Kubectl(ctx, args...)
	w.Logf("$ kubectl %s\n%s", strings.Join(args, " "), out)
	if err != nil {
		w.Log(err)
	}
}

// remove deletes the namespace, and does not wait for its end.
func (w *world) remove() {
	ctx := context.WithoutCancel(w.Context())
	if w.Failed() {
		return // It is worth a look.
	}
	err := w.Client.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.ns}})
	if client.IgnoreNotFound(err) != nil {
		w.Error(err)
	}
}

// eventually waits until try succeeds.
func (w *world) eventually(limit time.Duration, what string, try func(context.Context) error) {
	w.Helper()
	if err := poll(w.Context(), limit, try); err != nil {
		w.Fatalf("waited %s for %s: %v", limit, what, err)
	}
}

// poll tries until it succeeds, and returns the last error when time is up.
func poll(ctx context.Context, limit time.Duration, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}
