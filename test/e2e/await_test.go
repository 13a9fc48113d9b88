// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/test/e2e/evidence"
)

// await watches one object until cond has nothing to say against it.
func await[O client.Object](w *world, list client.ObjectList, name string, limit time.Duration, what string, cond func(O) error) O {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), limit)
	defer cancel()
	last := errors.New("there is no such object")
	for ctx.Err() == nil {
		events, err := w.Client.Watch(ctx, list, client.InNamespace(w.ns), client.MatchingFields{"metadata.name": name})
		if err != nil {
			last = err
			break
		}
		for e := range events.ResultChan() {
			object, ok := e.Object.(O)
			if !ok || e.Type == watch.Deleted {
				continue
			}
			if last = cond(object); last == nil {
				events.Stop()
				return object
			}
		}
	}
	w.Fatalf("waited %s for %s to %s: %v", limit, name, what, last)
	panic("unreachable")
}

// job waits until a job is as wanted.
func (w *world) job(name string, limit time.Duration, what string, cond func(*v1alpha1.SingletonJob) error) *v1alpha1.SingletonJob {
	w.Helper()
	return await(w, &v1alpha1.SingletonJobList{}, name, limit, what, cond)
}

func (w *world) pod(name string, limit time.Duration, what string, cond func(*corev1.Pod) error) *corev1.Pod {
	w.Helper()
	return await(w, &corev1.PodList{}, name, limit, what, cond)
}

func (w *world) lease(name string) *coordinationv1.Lease {
	w.Helper()
	var l coordinationv1.Lease
	if err := w.Client.Get(w.Context(), w.key(name), &l); err != nil {
		w.Fatal(err)
	}
	return &l
}

// held waits for a confirmed holder with a token greater than that.
func (w *world) held(job string, after int64, limit time.Duration) v1alpha1.HolderStatus {
	w.Helper()
	j := w.job(job, limit, "be held anew", func(j *v1alpha1.SingletonJob) error {
		h := j.Status.Holder
		switch {
		case h == nil || !h.Started || h.Token <= after || h.Node == "":
			return fmt.Errorf("no new holder, %s", conditions(j))
		case !meta.IsStatusConditionTrue(j.Status.Conditions, v1alpha1.ConditionHeld):
			return errors.New(conditions(j))
		}
		return nil
	})
	return *j.Status.Holder
}

// working waits until work of a token greater than that is on record.
func (w *world) working(job string, after int64, limit time.Duration) evidence.Start {
	w.Helper()
	var found evidence.Start
	w.eventually(limit, "new work of "+job, func(context.Context) error {
		for _, s := range w.starts(job) {
			if s.Kind == "work" && s.Token > after && s.Beats > 1 {
				found = s
				return nil
			}
		}
		return fmt.Errorf("no work with a token greater than %d", after)
	})
	return found
}

// start returns what the notebook has now on one start.
func (w *world) start(job, boot string) evidence.Start {
	w.Helper()
	for _, s := range w.starts(job) {
		if s.Boot == boot {
			return s
		}
	}
	w.Fatalf("start %s of %s is not on record", boot, job)
	panic("unreachable")
}

// condition waits until a condition is True, and returns its message.
func (w *world) condition(job, kind, reason string, limit time.Duration) string {
	w.Helper()
	var message string
	w.job(job, limit, "be "+kind, func(j *v1alpha1.SingletonJob) error {
		c := meta.FindStatusCondition(j.Status.Conditions, kind)
		if c == nil || c.Status != "True" || (reason != "" && c.Reason != reason) {
			return errors.New(conditions(j))
		}
		message = c.Message
		return nil
	})
	return message
}

// conditions puts a job's conditions in a few words.
func conditions(j *v1alpha1.SingletonJob) string {
	var words []string
	for _, c := range j.Status.Conditions {
		words = append(words, fmt.Sprintf("%s=%s (%s: %s)", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(words, ", ")
}

// gone waits until an object is no more.
func (w *world) gone(limit time.Duration, objects ...client.Object) {
	w.Helper()
	for _, object := range objects {
		what := fmt.Sprintf("the end of %T %s", object, object.GetName())
		w.eventually(limit, what, func(ctx context.Context) error {
			err := w.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
			switch {
			case apierrors.IsNotFound(err):
				return nil
			case err != nil:
				return err
			}
			return fmt.Errorf("it is still there, with finalizers %q", object.GetFinalizers())
		})
	}
}
