// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcelock

import (
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

type leaseObject = coordinationv1.Lease

// What others do to the Lease, and what a lock is told.

// TestEmptyHolderIsNotFree unless this protocol wrote it. LeaseLock takes it.
func TestEmptyHolderIsNotFree(t *testing.T) {
	b := newBench(t)
	first := b.lock("a", fresh)
	claim := b.takes(first)
	b.edit(func(x *leaseObject) {
		x.Spec.HolderIdentity, x.Spec.LeaseDurationSeconds = new(string), new(int32)
		*x.Spec.LeaseDurationSeconds = 1 // As client-go's release does.
	})
	if _, err := first.Claim(); err != nil {
		t.Errorf("it is taken for lost before anybody has looked: %v", err)
	}
	b.rises(claim, b.takesAfter(b.lock("b"), duration))
	b.waits(first)

	b.edit(func(x *leaseObject) { x.Spec.HolderIdentity = new(string) })
	if err := b.try(b.plain("c")); err != nil {
		t.Errorf("LeaseLock: %v, want it to start beside b", err)
	}
}

// TestWaitsForTheLongestDuration that the Lease had, whatever it says now.
func TestWaitsForTheLongestDuration(t *testing.T) {
	b := newBench(t)
	long := b.lock("a", fresh, func(o *Options) { o.LeaseDuration = time.Minute })
	record := wish("a")
	record.LeaseDurationSeconds = 60
	_, _, err := long.Get(t.Context())
	b.must(err)
	b.must(long.Update(t.Context(), record))
	b.edit(func(x *leaseObject) { *x.Spec.LeaseDurationSeconds = 1 })
	b.takesAfter(b.lock("b"), time.Minute)
}

// TestHandEditsKeepNobodyAlive: only the fields of a term count as its life.
func TestHandEditsKeepNobodyAlive(t *testing.T) {
	b := newBench(t)
	b.takes(b.lock("a", fresh))
	second := b.lock("b")
	b.waits(second)
	b.clock.Advance(duration - time.Second)
	b.edit(func(x *leaseObject) { x.Labels["team"] = "payments" })
	b.waits(second)
	b.clock.Advance(time.Second)
	b.takes(second)
}

// TestBesideLeaseLock: neither starts while the other holds the Lease, and
// LeaseLock's leader is no holder of a token.
func TestBesideLeaseLock(t *testing.T) {
	b := newBench(t)
	plain, ours := b.plain("p"), b.lock("a")
	b.must(plain.Create(t.Context(), wish("p")))
	b.waits(ours)
	b.clock.Advance(duration - time.Second)
	b.must(b.try(plain)) // It renews.
	claim := b.takesAfter(ours, duration)
	if err := b.try(b.plain("p")); !errors.Is(err, errWaits) {
		t.Errorf("LeaseLock does not wait for ours: %v", err)
	}
	b.must(b.release(ours))
	b.must(b.try(plain)) // It takes what was released, at once.
	b.waits(ours)
	if r := b.record(); r.Phase() != lease.Disputed || r.Holder != "p" {
		t.Errorf("the Lease is %s of %q", r.Phase(), r.Holder)
	}
	b.must(b.release(plain))
	b.rises(claim, b.takesAfter(ours, duration))
}

// TestStoreThatWentBack: an API server that answers with an older state was
// restored, and may issue the same tokens again.
func TestStoreThatWentBack(t *testing.T) {
	b := newBench(t)
	store := &replay{}
	first := b.lock("a", fresh, through(store.pass))
	claim := b.takes(first)
	_, _, err := first.Get(t.Context()) // Which is what will be answered later.
	b.must(err)
	b.must(b.renew(first))
	store.set(true)
	b.waits(first)
	wantText(t, b.renew(first), "went back")
	store.set(false)
	b.waits(first)
	first.RecordEvent(stoppedLeading)
	b.rises(claim, b.takesAfter(first, duration))
}

// TestLeasesThatAreNotForTaking: whatever time passes.
func TestLeasesThatAreNotForTaking(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*leaseObject)
		want string
	}{
		"managed": {func(x *leaseObject) {
			x.Labels = map[string]string{v1alpha1.LabelManaged: "true"}
		}, "Leasehold"},
		"closed": {func(x *leaseObject) {
			x.Annotations[v1alpha1.AnnotationClosed] = string(v1alpha1.ClosedCompleted)
		}, "closed"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			l := b.lock("a")
			_, _, err := l.Get(t.Context())
			b.must(err)
			b.edit(c.edit)
			b.waits(l)
			b.clock.Advance(time.Hour)
			b.waits(l)
			if err := b.renew(l); err == nil {
				t.Error("it is taken")
			}
		})
	}
	t.Run("not understood", func(t *testing.T) {
		b := newBench(t)
		l := b.lock("a", fresh)
		b.takes(l)
		b.edit(func(x *leaseObject) { x.Annotations[v1alpha1.AnnotationToken] = "many" })
		wantText(t, b.try(l), v1alpha1.AnnotationToken, "many", b.namespace+"/"+leaseName)
		b.claimsNothing(l)
	})
}

func TestRefusals(t *testing.T) {
	b := newBench(t)
	l := b.lock("a", fresh)
	wantText(t, b.renew(l), "not been read")
	wantText(t, l.Create(t.Context(), wish("a")), "created by Get")
	wantText(t, l.Update(t.Context(), wish("b")), `"b"`, `"a"`)
	short := wish("a")
	short.LeaseDurationSeconds = 10
	wantText(t, l.Update(t.Context(), short), "10 s", "15s")
	wantText(t, b.release(l), "not held")

	nowhere := b.lock("a", func(o *Options) { o.Namespace = "nowhere" })
	_, _, err := nowhere.Get(t.Context())
	wantText(t, err, "nowhere/work", "not found")
	if apierrors.IsNotFound(err) {
		t.Error("an elector takes the error for a Lease to create")
	}

	stranger := b.lock("a", fresh, func(o *Options) {
		o.Issuer = ""
		o.Config.Impersonate.UserName, o.Config.Impersonate.Groups = "somebody", []string{"system:authenticated"}
	})
	_, _, err = stranger.Get(t.Context())
	if !apierrors.IsForbidden(err) {
		t.Errorf("without a permission: %v", err)
	}
}

func TestIssuerIsReadFromTheCluster(t *testing.T) {
	b := newBench(t)
	system, err := b.client.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	b.must(err)
	claim := b.takes(b.lock("a", fresh, func(o *Options) { o.Issuer = "" }))
	if want := string(system.UID) + "/" + b.namespace + "/" + leaseName; claim.Issuer != want {
		t.Errorf("the issuer is %q, want %q", claim.Issuer, want)
	}
}

func TestOptions(t *testing.T) {
	b := newBench(t)
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no config":        {func(o *Options) { o.Config = nil }, "Config"},
		"no namespace":     {func(o *Options) { o.Namespace = "" }, "Namespace"},
		"no name":          {func(o *Options) { o.Name = "" }, "Name"},
		"no identity":      {func(o *Options) { o.Identity = "" }, "holder"},
		"identity":         {func(o *Options) { o.Identity = "two words" }, "holder"},
		"a short duration": {func(o *Options) { o.LeaseDuration = 2 * time.Second }, "too short"},
		"not whole":        {func(o *Options) { o.LeaseDuration = 4500 * time.Millisecond }, "whole seconds"},
	} {
		o := b.options("a")
		c.change(&o)
		_, err := New(o)
		if err == nil || !strings.HasPrefix(err.Error(), "resourcelock: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", name, err, c.want)
		}
	}
}

type events []string

func (e *events) Eventf(about runtime.Object, kind, reason, format string, args ...any) {
	l := about.(*coordinationv1.Lease)
	*e = append(*e, strings.Join([]string{l.Kind, l.Name, kind, reason, format, args[0].(string), args[1].(string)}, " "))
}

func TestEventsAndNames(t *testing.T) {
	b := newBench(t)
	var got events
	l := b.lock("a", fresh, func(o *Options) { o.EventRecorder = &got })
	l.RecordEvent("became leader") // Of what is not known yet.
	b.takes(l)
	l.RecordEvent("became leader")
	if len(got) != 1 || got[0] != "Lease work Normal LeaderElection %s %s a became leader" {
		t.Errorf("events %q", got)
	}
	if l.Identity() != "a" || l.Describe() != b.namespace+"/work" {
		t.Errorf("%s, %s", l.Identity(), l.Describe())
	}
}
