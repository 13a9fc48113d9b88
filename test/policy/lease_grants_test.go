// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// forgedGrants are the manager's steps, whole and correct, by those who are not
// the manager. The holder that a step names is the holder pod itself.
var forgedGrants = []leaseAttempt{
	{name: "grants", actors: everybody, state: free, change: grant, refused: true},
	{name: "grants what it released", actors: everybody, state: released, change: grant, refused: true},
	{name: "grants and confirms", actors: everybody, state: free, change: both(grant, annotate(v1alpha1.AnnotationStarted, firstNonce)), refused: true},
	{name: "withdraws", actors: everybody, state: granted, change: withdraw, refused: true},
	{name: "requests the end", actors: everybody, state: live, change: requestEnd, refused: true},
	{name: "ends a lapsed term", actors: everybody, state: live, change: endLapsed, refused: true},
	{name: "takes a lapsed term", actors: everybody, state: live, change: takeLapsed, refused: true},
	{name: "opens", actors: everybody, state: born, change: setClosed(""), refused: true},
	{name: "suspends", actors: everybody, state: live, change: setClosed(v1alpha1.ClosedSuspended), refused: true},
	{name: "suspends what is free", actors: everybody, state: free, change: setClosed(v1alpha1.ClosedSuspended), refused: true},
	{name: "reopens", actors: everybody, state: suspended, change: setClosed(""), refused: true},
	{name: "reopens with a release", actors: []actor{holder}, state: suspended,
		change: both(release(v1alpha1.OutcomeStopped), setClosed("")), refused: true},

	// The pod's name alone makes nobody the holder.
	{name: "confirms for an earlier pod of its name", actors: []actor{holder, namesake}, state: formerPod,
		change: annotate(v1alpha1.AnnotationStarted, laterNonce), refused: true},
	{name: "renews for an earlier pod of its name", actors: []actor{holder, namesake}, state: formerPod, change: renew, refused: true},
	{name: "reports for an earlier pod of its name", actors: []actor{holder, namesake}, state: formerPod,
		change: annotate(v1alpha1.AnnotationBehind, "7"), refused: true},
	{name: "releases for an earlier pod of its name", actors: []actor{holder, namesake}, state: formerPod,
		change: release(v1alpha1.OutcomeStopped), refused: true},

	{name: "makes it competing", actors: everybody, state: live, change: setLabel(v1alpha1.LabelCompeting, "true"), refused: true},
	{name: "makes it competing alone", actors: []actor{user, holder}, state: live,
		change: both(label(""), setLabel(v1alpha1.LabelCompeting, "true")), refused: true},
	{name: "gives it to another job", actors: []actor{user, holder}, state: live, change: setLabel(v1alpha1.LabelJob, "mine"), refused: true},
	{name: "labels it at all", actors: []actor{user, holder}, state: live, change: setLabel("app", "mine"), refused: true},
	{name: "creates one that is managed and competing", actors: everybody, state: absent, write: create,
		change: setLabel(v1alpha1.LabelCompeting, "true"), refused: true},
	{name: "brings a competing one under Leasehold", actors: everybody, state: competing, change: label("true"), refused: true},
}

// forgedPatches are the shapes that a write can have, other than an update.
var forgedPatches = []leaseAttempt{
	{name: "removes the label by a merge", actors: []actor{user, holder}, state: live,
		write: patch(types.MergePatchType, `{"metadata":{"labels":null}}`), refused: true},
	{name: "removes the label by a JSON patch", actors: []actor{user, holder}, state: live,
		write: patch(types.JSONPatchType, `[{"op":"remove","path":"/metadata/labels/leasehold.dev~1managed"}]`), refused: true},
	{name: "removes the finalizer by a merge", actors: []actor{user, holder}, state: live,
		write: patch(types.MergePatchType, `{"metadata":{"finalizers":null}}`), refused: true},
	{name: "seizes by a merge", actors: []actor{user, holder}, state: live,
		write: patch(types.MergePatchType, `{"spec":{"holderIdentity":"me"}}`), refused: true},
	{name: "seizes by an apply", actors: []actor{user, holder}, state: live,
		write: apply(`{"spec":{"holderIdentity":"me"}}`), refused: true},
	{name: "raises the token by an apply", actors: []actor{user, holder}, state: live,
		write: apply(`{"metadata":{"annotations":{"leasehold.dev/fencing-token":"4611686018427387904"}}}`), refused: true},
	{name: "adds the label by an apply", actors: []actor{user, holder}, state: unmanaged,
		write: apply(`{"metadata":{"labels":{"leasehold.dev/managed":"true"}}}`), refused: true},
	{name: "creates by an apply", actors: []actor{user, holder}, state: absent,
		write: apply(`{"metadata":{"labels":{"leasehold.dev/managed":"true"}}}`), refused: true},
	{name: "removes all annotations by a merge", actors: []actor{user, holder}, state: live,
		write: patch(types.MergePatchType, `{"metadata":{"annotations":null}}`), refused: true},
}

// competingSteps are on Leases that no controller grants: the policies leave them
// alone.
var competingSteps = []leaseAttempt{
	{name: "creates a competing Lease", actors: []actor{user, holder}, state: absent, write: create, change: func(_ *testing.T, a attemptOn) {
		newCompeting(a.Name, a.start).DeepCopyInto(a.Lease)
	}},
	{name: "takes a competing Lease", actors: []actor{user, holder, otherPod}, state: competing, change: func(t *testing.T, a attemptOn) {
		l, err := a.observed().Take(rival(a.start), time.Now())
		a.become(t, l, err)
	}},
	{name: "writes the token of a competing Lease", actors: []actor{user, otherPod}, state: competing, change: annotate(v1alpha1.AnnotationToken, "7")},
	{name: "deletes a competing Lease", actors: []actor{user, otherPod}, state: competing, write: remove},
}

func rival(s lease.Start) lease.Rival {
	return lease.Rival{Holder: s.Holder, Nonce: s.Nonce, Issuer: "issuer", Fresh: true,
		Timing: lease.Timing{Duration: 15 * time.Second, RenewInterval: 5 * time.Second}}
}

func newCompeting(name string, s lease.Start) *coordinationv1.Lease {
	return lease.NewCompeting(metav1.ObjectMeta{Namespace: namespace, Name: name}, rival(s), lease.Carry{})
}

func setLabel(key, value string) func(*testing.T, attemptOn) {
	return func(_ *testing.T, a attemptOn) { metav1.SetMetaDataLabel(&a.ObjectMeta, key, value) }
}

type leaseWrite = func(context.Context, client.Client, *coordinationv1.Lease) error

func patch(kind types.PatchType, body string) leaseWrite {
	return func(ctx context.Context, c client.Client, l *coordinationv1.Lease) error {
		return c.Patch(ctx, l, client.RawPatch(kind, []byte(body)))
	}
}

// apply is a server-side apply that takes fields from whoever has them.
func apply(body string) leaseWrite {
	return func(ctx context.Context, c client.Client, l *coordinationv1.Lease) error {
		raw, err := applied(body, coordinationv1.SchemeGroupVersion.WithKind("Lease"), l.Name)
		if err != nil {
			return err
		}
		return c.Patch(ctx, l, client.RawPatch(types.ApplyPatchType, raw), client.ForceOwnership, client.FieldOwner("somebody"))
	}
}

// applied is what to apply: the body with its kind and name.
func applied(body string, kind schema.GroupVersionKind, name string) ([]byte, error) {
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(body), &object.Object); err != nil {
		return nil, err
	}
	object.SetGroupVersionKind(kind)
	object.SetName(name)
	return object.MarshalJSON()
}
