// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/test/e2e/evidence"
)

// sightings are what a watch showed of a namespace's Leases. A watch delivers
// every version, so that no grant is missed.
type sightings struct {
	mu     sync.Mutex
	grants map[string][]evidence.Grant // By namespace/lease.
	gone   map[string]time.Time
}

func watchLeases(w *world) *sightings {
	s := &sightings{grants: map[string][]evidence.Grant{}, gone: map[string]time.Time{}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	done := make(chan struct{})
	var before coordinationv1.LeaseList
	if err := w.Client.List(ctx, &before, client.InNamespace(w.ns)); err != nil {
		cancel()
		w.Fatal(err)
	}
	go func() {
		defer close(done)
		if err := s.watch(ctx, w, before.ResourceVersion); ctx.Err() == nil {
			w.Errorf("the watch of the Leases broke off, and grants may have been missed: %v", err)
		}
	}()
	w.Cleanup(func() { cancel(); <-done })
	return s
}

// watch goes on at the very version where a broken connection has left off. An
// API server that was restarted does not know that version: then it goes on from
// what is there, and a check would notice work whose grant was missed.
func (s *sightings) watch(ctx context.Context, w *world, version string) error {
	for {
		err := s.follow(ctx, w, &version)
		if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			return err
		}
		var now coordinationv1.LeaseList
		if err := w.Client.List(ctx, &now, client.InNamespace(w.ns)); err != nil {
			return err
		}
		for i := range now.Items {
			s.see(&now.Items[i], false)
		}
		version = now.ResourceVersion
	}
}

func (s *sightings) follow(ctx context.Context, w *world, version *string) error {
	for {
		var events watch.Interface
		err := poll(ctx, 2*time.Minute, func(context.Context) (err error) {
			events, err = w.Client.Watch(ctx, &coordinationv1.LeaseList{}, client.InNamespace(w.ns),
				&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: *version}})
			return err
		})
		if err != nil {
			return err
		}
		for e := range events.ResultChan() {
			l, ok := e.Object.(*coordinationv1.Lease)
			if !ok {
				return apierrors.FromObject(e.Object)
			}
			s.see(l, e.Type == watch.Deleted)
			*version = l.ResourceVersion
		}
	}
}

func (s *sightings) see(l *coordinationv1.Lease, deleted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := l.Namespace + "/" + l.Name
	if deleted {
		s.gone[name] = time.Now()
		return
	}
	token, err := strconv.ParseInt(l.Annotations[v1alpha1.AnnotationToken], 10, 64)
	holder := l.Annotations[v1alpha1.AnnotationHolder]
	if err != nil || l.Spec.HolderIdentity == nil || *l.Spec.HolderIdentity != holder || l.Spec.AcquireTime == nil {
		return // Free, or never granted.
	}
	g := evidence.Grant{Token: token, Term: l.Annotations[v1alpha1.AnnotationTerm], Holder: holder, At: l.Spec.AcquireTime.Time}
	known := s.grants[name]
	if n := len(known); n == 0 || known[n-1].Token != g.Token || known[n-1].Term != g.Term {
		known = append(known, g)
	}
	if l.Spec.RenewTime != nil {
		known[len(known)-1].Renewed = l.Spec.RenewTime.Time
	}
	s.grants[name] = known
}

// all returns the grants that were seen, in their order.
func (s *sightings) all() map[string][]evidence.Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := maps.Clone(s.grants)
	for name, grants := range all {
		all[name] = slices.Clone(grants)
	}
	return all
}

// goneAt returns when a Lease was seen to go.
func (s *sightings) goneAt(name string) (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, gone := s.gone[name]
	return at, gone
}

// renewedAt returns the last renewal of a term.
func (s *sightings) renewedAt(name string, token int64) time.Time {
	for _, g := range s.all()[name] {
		if g.Token == token {
			return g.Renewed
		}
	}
	return time.Time{}
}
