// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/controllers/grant/plan"
	"leasehold.dev/internal/refusal"
)

const (
	// The back-off after refusals.
	leastRefusal = time.Second
	mostRefusal  = 30 * time.Second
)

// refusals are the writes of pods that were refused last time.
type refusals struct {
	mu  sync.Mutex
	all map[plan.PodWrite]refused
}

type refused struct {
	text  string
	wait  time.Duration
	again time.Time
}

// left is how long a write is not to be tried again; zero or less: it may be.
func (r *refusals) left(w plan.PodWrite, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[w].again.Sub(now)
}

// add remembers a refusal, and returns when to try again and whether its text
// is news.
func (r *refusals) add(w plan.PodWrite, text string, now time.Time) (wait time.Duration, news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.all[w]
	wait = min(max(2*last.wait, leastRefusal), mostRefusal)
	if r.all == nil {
		r.all = map[plan.PodWrite]refused{}
	}
	r.all[w] = refused{text, wait, now.Add(wait)}
	return wait, !refusal.Same(last.text, text)
}

func (r *refusals) drop(writes ...plan.PodWrite) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range writes {
		delete(r.all, w)
	}
}

// forget drops all that is remembered of a pod.
func (r *refusals) forget(uid types.UID) {
	r.drop(plan.PodWrite{UID: uid}, plan.PodWrite{UID: uid, Removal: true})
}

// of returns what is remembered of the pods.
func (r *refusals) of(pods []*corev1.Pod) map[plan.PodWrite]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) == 0 {
		return nil
	}
	known := map[plan.PodWrite]string{}
	for _, pod := range pods {
		for _, w := range []plan.PodWrite{{UID: pod.UID}, {UID: pod.UID, Removal: true}} {
			if one, ok := r.all[w]; ok {
				known[w] = one.text
			}
		}
	}
	return known
}

// writePod does one write of a pod, unless it was refused a moment ago, and
// sorts the answer. A refusal is told once, and remembered for the next plan.
func (r *Reconciler) writePod(o *observation, pod *corev1.Pod, removal bool, what string, write func() error) (result, error) {
	w := plan.PodWrite{UID: pod.UID, Removal: removal}
	if left := r.refusals.left(w, r.Tracker.Now()); left > 0 {
		return result{refused: true, again: left}, nil
	}
	err := write()
	if !refusal.Is(err) {
		if err == nil {
			r.refusals.drop(w)
		}
		return outcome(err, what+" pod "+pod.Name)
	}
	text := refusalText(what+" pod "+pod.Name, err)
	wait, news := r.refusals.add(w, text, r.Tracker.Now())
	if news {
		r.tell(o.Lease, plan.Event{Warning: true, Reason: plan.ReasonPodWriteRefused, Action: plan.ActionWait, Pod: pod, Note: text})
	}
	return result{refused: true, again: wait}, nil
}

func refusalText(what string, err error) string {
	return fmt.Sprintf("the API server refuses Leasehold's manager to %s: %v. Let the policy, webhook or role that refuses admit it; "+
		"it is tried again", what, err)
}

// tellRefusedUpdate tells once that a write of the Lease is refused. The Lease
// cannot say it; its owner can.
func (r *Reconciler) tellRefusedUpdate(l *coordinationv1.Lease, err error) {
	what := "update lease " + l.Name
	if r.LeaseRefusals.Note(l, fmt.Errorf("%s: %w", what, err)) {
		r.tell(l, plan.Event{Warning: true, Reason: v1alpha1.BlockedWriteRefused, Action: plan.ActionWait, Note: refusalText(what, err)})
	}
}
