// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/controllers/grant/plan"
)

// A refusal is an answer to a write that the next try will get again, until
// somebody changes a policy, a webhook or a role. It is told from a lost race,
// where another writer was faster, and from an outage, where nobody answers.

const (
	// The back-off after refusals.
	leastRefusal = time.Second
	mostRefusal  = 30 * time.Second
)

// lostTest reports whether a `test` of a JSON patch failed: the pod is not the
// one that was read, or has changed since. The API server answers that with
// Unprocessable Entity, as a policy or a validation may, but with a text of its
// own that speaks of no object.
func lostTest(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && answer.Status().Code == http.StatusUnprocessableEntity && answer.Status().Message == brokenPatch
}

// brokenPatch is what the API server says of a patch that does not apply.
var brokenPatch = apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", "", 0, false).Status().Message

// refused reports whether err is the API server's refusal of a write.
func refused(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || lostTest(err) {
		return false
	}
	switch code := answer.Status().Code; code {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusGone, http.StatusTooManyRequests:
		return false
	case http.StatusInternalServerError: // A webhook that does not answer.
		return true
	default:
		return code >= 400 && code < 500
	}
}

// refusals are the writes of pods that were refused last time.
type refusals struct {
	mu  sync.Mutex
	all map[plan.PodWrite]refusal
}

type refusal struct {
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
		r.all = map[plan.PodWrite]refusal{}
	}
	r.all[w] = refusal{text, wait, now.Add(wait)}
	return wait, last.text != text
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
	if !refused(err) {
		if err == nil {
			r.refusals.drop(w)
		}
		return outcome(err, what+" pod "+pod.Name)
	}
	text := fmt.Sprintf("the API server refuses Leasehold's manager to %s pod %s: %v. Let the policy, webhook or role that refuses admit it; "+
		"it is tried again", what, pod.Name, err)
	wait, news := r.refusals.add(w, text, r.Tracker.Now())
	if news {
		r.tell(o.Lease, plan.Event{Warning: true, Reason: plan.ReasonPodWriteRefused, Action: plan.ActionWait, Pod: pod, Note: text})
	}
	return result{refused: true, again: wait}, nil
}
