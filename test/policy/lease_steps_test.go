// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// holderSteps are the holder's part of the protocol. They must pass.
var holderSteps = []leaseAttempt{
	{name: "confirms", actors: []actor{holder}, state: granted, change: confirm},
	{name: "renews", actors: []actor{holder}, state: live, change: renew},
	{name: "renews while its end is requested", actors: []actor{holder}, state: endAsked, change: renew},
	{name: "reports behind", actors: []actor{holder}, state: live, change: annotate(v1alpha1.AnnotationBehind, "4611686018427387904")},
	{name: "reports section-p99", actors: []actor{holder}, state: live, change: annotate(v1alpha1.AnnotationSectionP99, "0")},
	{name: "reports with a renewal", actors: []actor{holder}, state: live, change: both(renew, annotate(v1alpha1.AnnotationSectionP99, "12"))},
	{name: "releases as stopped", actors: []actor{holder}, state: live, change: release(v1alpha1.OutcomeStopped)},
	{name: "releases as failed", actors: []actor{holder}, state: live, change: release(v1alpha1.OutcomeFailed)},
	{name: "releases as succeeded", actors: []actor{holder}, state: live, change: release(v1alpha1.OutcomeSucceeded)},
	{name: "releases as succeeded and closes", actors: []actor{holder}, state: liveJob, change: release(v1alpha1.OutcomeSucceeded)},
	{name: "releases a failed run of a job", actors: []actor{holder}, state: liveJob, change: release(v1alpha1.OutcomeFailed)},
	{name: "releases when asked", actors: []actor{holder}, state: endAsked, change: release(v1alpha1.OutcomeStopped)},
	{name: "releases what it never confirmed", actors: []actor{holder}, state: granted, change: release(v1alpha1.OutcomeStopped)},
	{name: "releases a seized lease, and leaves the foreign holder", actors: []actor{holder}, state: seized, change: release(v1alpha1.OutcomeStopped)},
	{name: "releases a wiped lease", actors: []actor{holder}, state: wiped, change: release(v1alpha1.OutcomeStopped)},
	{name: "renews while suspended", actors: []actor{holder}, state: suspended, change: renew},
	{name: "releases while suspended", actors: []actor{holder}, state: suspended, change: release(v1alpha1.OutcomeStopped)},
	{name: "releases an earlier start", actors: []actor{holder}, state: live, change: func(t *testing.T, a attemptOn) {
		later, err := lease.ParseNonce(laterNonce)
		if err != nil {
			t.Fatal(err)
		}
		l, err := a.observed().ReleaseOutlived(a.start, later)
		a.become(t, l, err)
	}},
}

// managerSteps are for the manager and for repairs.
var managerSteps = []leaseAttempt{
	{name: "creates", actors: []actor{manager, breakGlass}, state: absent, write: create},
	{name: "creates by an update", actors: []actor{manager, breakGlass}, state: absent, write: update},
	{name: "grants", actors: []actor{manager, breakGlass}, state: free, change: grant},
	{name: "withdraws", actors: []actor{manager, breakGlass}, state: granted, change: withdraw},
	{name: "requests the end", actors: []actor{manager, breakGlass}, state: live, change: requestEnd},
	{name: "ends a lapsed term", actors: []actor{manager, breakGlass}, state: live, change: endLapsed},
	{name: "closes", actors: []actor{manager, breakGlass}, state: live, change: setClosed(v1alpha1.ClosedSuspended)},
	{name: "opens", actors: []actor{manager, breakGlass}, state: born, change: setClosed("")},
	{name: "reopens", actors: []actor{manager, breakGlass}, state: suspended, change: setClosed("")},
	{name: "changes the configuration", actors: []actor{manager, breakGlass}, state: live, change: annotate(v1alpha1.AnnotationDuration, "30")},
	{name: "writes an annotation that nobody knows", actors: []actor{manager, breakGlass}, state: live, change: annotate("leasehold.dev/unknown", "1")},
	{name: "removes the finalizer", actors: []actor{manager, breakGlass}, state: released, change: finalizers()},
	{name: "deletes", actors: append([]actor{manager, breakGlass}, collectors...), state: live, write: remove},
	{name: "deletes the namespace's", actors: []actor{namespaceController, controllerManager}, state: live, write: removeAll},
	{name: "adopts", actors: []actor{manager, breakGlass}, state: unmanaged, change: label("true")},
	{name: "gives up", actors: []actor{manager, breakGlass}, state: free, change: label("")},
	{name: "takes owners away", actors: []actor{garbageCollector, controllerManager, manager}, state: live, change: owner},
	{name: "takes all owners away", actors: []actor{manager}, state: ofAJob, change: owners()},
	{name: "takes another owner away", actors: []actor{garbageCollector, controllerManager, manager}, state: ofAJob, change: owners(0)},
	{name: "deletes in the foreground", actors: []actor{garbageCollector, controllerManager}, state: live,
		change: finalizers(v1alpha1.FinalizerLease, metav1.FinalizerDeleteDependents)},
}

// ordinarySteps have nothing to do with the protocol, and must pass.
var ordinarySteps = []leaseAttempt{
	{name: "creates a Lease of its own", actors: []actor{user, otherPod}, state: absent, write: create, change: label("")},
	{name: "holds a Lease of its own", actors: []actor{user, otherPod}, state: unmanaged, change: hold("me")},
	{name: "deletes a Lease of its own", actors: []actor{user, otherPod}, state: unmanaged, write: remove},
	{name: "annotates", actors: []actor{user, holder}, state: live, change: annotate("example.com/note", "mine")},
	{name: "annotates by a patch", actors: []actor{user, holder}, state: live,
		write: patch(types.MergePatchType, `{"metadata":{"annotations":{"example.com/note":"mine"}}}`)},
}

// collectors delete on behalf of owners and namespaces.
var collectors = []actor{garbageCollector, namespaceController, controllerManager}

func grant(t *testing.T, a attemptOn) {
	l, err := a.observed().Grant(a.start.Holder, "issuer", lease.Basis{}, time.Now())
	a.become(t, l, err)
}

func withdraw(t *testing.T, a attemptOn) {
	l, err := a.observed().Withdraw()
	a.become(t, l, err)
}

func requestEnd(t *testing.T, a attemptOn) {
	l, err := a.observed().RequestEnd()
	a.become(t, l, err)
}

// endLapsed ends the term as one who has seen it unchanged for long.
func endLapsed(t *testing.T, a attemptOn) {
	lapsed := lease.Observation{Lease: a.Lease.DeepCopy(), Age: time.Hour}
	l, err := lapsed.End(lease.Basis{Kind: lease.ByLapse})
	a.become(t, l, err)
}

// takeLapsed ends the term likewise and grants the lease, in one write.
func takeLapsed(t *testing.T, a attemptOn) {
	lapsed := lease.Observation{Lease: a.Lease.DeepCopy(), Age: time.Hour}
	l, err := lapsed.Grant(a.start.Holder, "issuer", lease.Basis{Kind: lease.ByLapse}, time.Now())
	a.become(t, l, err)
}

func setClosed(closed v1alpha1.Closed) func(*testing.T, attemptOn) {
	return func(t *testing.T, a attemptOn) {
		l, err := a.observed().SetClosed(closed)
		a.become(t, l, err)
	}
}

func confirm(t *testing.T, a attemptOn) {
	l, err := a.observed().Confirm(a.start, time.Now())
	a.become(t, l, err)
}

func renew(_ *testing.T, a attemptOn) { moveRenewTime(a.Lease, time.Second) }

func release(outcome v1alpha1.Outcome) func(*testing.T, attemptOn) {
	return func(t *testing.T, a attemptOn) {
		l, err := a.observed().Release(a.start, outcome)
		a.become(t, l, err)
	}
}

func moveRenewTime(l *coordinationv1.Lease, by time.Duration) {
	moved := metav1.NewMicroTime(time.Now())
	if l.Spec.RenewTime != nil {
		moved = metav1.NewMicroTime(l.Spec.RenewTime.Add(by))
	}
	l.Spec.RenewTime = &moved
}

// annotate sets an annotation; an empty value removes it.
func annotate(key, value string) func(*testing.T, attemptOn) {
	return func(_ *testing.T, a attemptOn) {
		if value == "" {
			delete(a.Annotations, key)
			return
		}
		metav1.SetMetaDataAnnotation(&a.ObjectMeta, key, value)
	}
}

// label sets the managed label; an empty value removes it.
func label(value string) func(*testing.T, attemptOn) {
	return func(_ *testing.T, a attemptOn) {
		if value == "" {
			delete(a.Labels, v1alpha1.LabelManaged)
			return
		}
		metav1.SetMetaDataLabel(&a.ObjectMeta, v1alpha1.LabelManaged, value)
	}
}

func finalizers(names ...string) func(*testing.T, attemptOn) {
	return func(_ *testing.T, a attemptOn) { a.Finalizers = names }
}

func owner(_ *testing.T, a attemptOn) {
	a.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "mine", UID: "mine"}}
}

// owners keeps those of the owners that are named by their places.
func owners(places ...int) func(*testing.T, attemptOn) {
	return func(_ *testing.T, a attemptOn) {
		var kept []metav1.OwnerReference
		for _, i := range places {
			kept = append(kept, a.OwnerReferences[i])
		}
		a.OwnerReferences = kept
	}
}

func hold(name string) func(*testing.T, attemptOn) {
	return func(_ *testing.T, a attemptOn) { a.Spec.HolderIdentity = &name }
}

func both(first, second func(*testing.T, attemptOn)) func(*testing.T, attemptOn) {
	return func(t *testing.T, a attemptOn) {
		first(t, a)
		second(t, a)
	}
}
