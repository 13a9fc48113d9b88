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
	events, err := w.Client.Watch(ctx, &coordinationv1.LeaseList{}, client.InNamespace(w.ns))
	if err != nil {
		cancel()
		w.Fatal(err)
	}
	go func() {
		defer close(done)
		for e := range events.ResultChan() {
			if l, ok := e.Object.(*coordinationv1.Lease); ok {
				s.see(l, e.Type == watch.Deleted)
			}
		}
		if ctx.Err() == nil {
			w.Error("the watch of the Leases broke off, and grants may have been missed")
		}
	}()
	w.Cleanup(func() { cancel(); events.Stop(); <-done })
	return s
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
