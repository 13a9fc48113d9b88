// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package singletonjob

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"leasehold.dev/api/v1alpha1"
)

// story is a job's life: moves of everybody else, between which the reconciler
// settles.
type story struct {
	job   func(*v1alpha1.SingletonJob)
	moves []func(*world)
}

var stories = map[string]story{
	"fails, is tried again, succeeds": {
		job: toCompletion(corev1.RestartPolicyNever),
		moves: []func(*world){
			func(w *world) { w.grant("work-0"); w.run("work-0"); w.confirm() },
			func(w *world) { w.release(v1alpha1.OutcomeFailed); w.end("work-0", 1) },
			func(w *world) { w.clock.SetTime(w.clock.Now().Add(time.Minute)) },
			func(w *world) { w.grant("work-1"); w.run("work-1"); w.confirm() },
			func(w *world) { w.release(v1alpha1.OutcomeSucceeded); w.end("work-1", 0) },
		},
	},
	"is deleted": {
		moves: []func(*world){
			func(w *world) { w.grant("work-0"); w.run("work-0"); w.confirm() },
			func(w *world) { w.must(api.Delete(w.Context(), w.job())) },
			func(w *world) { w.release(v1alpha1.OutcomeStopped); w.reap("work-0") },
		},
	},
	"is drained, rolled out, suspended, loses its lease": {
		job: func(job *v1alpha1.SingletonJob) { job.Spec.Lease.MinToken = 1 << 40 },
		moves: []func(*world){
			func(w *world) { w.grant("work-0"); w.run("work-0"); w.confirm() },
			func(w *world) { w.must(api.Delete(w.Context(), w.pod("work-0"))) },
			func(w *world) { w.release(v1alpha1.OutcomeStopped); w.reap("work-0") },
			func(w *world) { w.grant("work-1"); w.run("work-1"); w.confirm() },
			func(w *world) {
				w.edit(func(job *v1alpha1.SingletonJob) { job.Spec.Template.Spec.Containers[0].Image = "example.com/app:2" })
			},
			func(w *world) { w.release(v1alpha1.OutcomeStopped); w.reap("work-1") },
			func(w *world) { w.grant("work-2"); w.run("work-2"); w.confirm() },
			func(w *world) { w.loseLease() },
			func(w *world) { w.lapse() },
			func(w *world) { w.edit(func(job *v1alpha1.SingletonJob) { job.Spec.Suspend = ptr.To(true) }) },
			func(w *world) { w.reap("work-2") },
		},
	},
}

// telling is what must be the same whether or not the reconciler crashed.
type telling struct {
	Pods       []string
	Finalizers []string
	Job        bool
	History    string
	Ordinals   []int32
	Failed     int32
	Floor      int64
	Conditions []string
	Closed     string
	Lease      bool
}

func (s story) play(t *testing.T, crash func(w *world, write string, after bool) error) (telling, *world) {
	w := newWorld(t)
	births := map[string]types.UID{}
	w.crash = func(write string, after bool) error {
		if name, ok := strings.CutPrefix(write, "create Pod/"); ok && after {
			if births[name] != "" {
				t.Errorf("pod %s was made twice", name)
			}
			births[name] = w.pod(name).UID
		}
		return crash(w, write, after)
	}
	w.create(s.job)
	w.settle()
	for _, move := range s.moves {
		move(w)
		w.settle()
	}
	return w.tell(), w
}

func (w *world) tell() telling {
	w.Helper()
	told := telling{Pods: w.pods()}
	for _, name := range told.Pods {
		told.Finalizers = append(told.Finalizers, w.pod(strings.TrimPrefix(name, "-")).Finalizers...)
	}
	if told.Lease = w.exists(&coordinationv1.Lease{}, w.name); told.Lease {
		told.Closed = string(w.record().Closed)
	}
	if told.Job = w.exists(&v1alpha1.SingletonJob{}, w.name); !told.Job {
		return told
	}
	status := w.job().Status
	told.History, told.Ordinals, told.Failed, told.Floor = w.history(), status.ActiveOrdinals, status.Failed, status.TokenFloor
	for _, c := range status.Conditions {
		told.Conditions = append(told.Conditions, fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason))
	}
	slices.Sort(told.Conditions)
	return told
}

// TestCrashBetweenAnyTwoWrites kills the reconciler at every write of a story,
// once before it and once after it, when its reply is lost. The story must end
// as if nothing had happened.
func TestCrashBetweenAnyTwoWrites(t *testing.T) {
	t.Parallel()
	for name, s := range stories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, w := s.play(t, func(*world, string, bool) error { return nil })
			t.Logf("%d writes; ends as %+v", len(w.writes), want)
			step := 1
			if testing.Short() {
				step = 5
			}
			for k := 1; k <= len(w.writes); k += step {
				for _, lostReply := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s,after=%t,%d", w.writes[k-1], lostReply, k), func(t *testing.T) {
						t.Parallel()
						crashed := false
						got, _ := s.play(t, func(w *world, _ string, after bool) error {
							if !crashed && len(w.writes) == k && after == lostReply {
								crashed = true
								return errCrash
							}
							return nil
						})
						if !crashed {
							t.Error("did not crash")
						}
						if diff := cmp.Diff(want, got); diff != "" {
							t.Errorf("ends otherwise (-want +got):\n%s", diff)
						}
					})
				}
			}
		})
	}
}
