// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"leasehold.dev/internal/holder/clock"
	"leasehold.dev/leaderelect/lease"
)

// known is the newest state of the Lease that was seen.
type known struct {
	// lease is nil where there is none, or nothing was seen yet.
	lease  *coordinationv1.Lease
	record lease.Record
	// err: the Lease cannot be understood; record is empty.
	err error
	// version is the newest resourceVersion seen, also of a deletion; since is
	// when the machine learnt it.
	version string
	since   clock.Instant
	// print covers the term's fields, and changed is when they were first seen
	// so. A restored store begins anew.
	print   string
	changed clock.Instant
	// restored is set when the store was seen to have gone back.
	restored error
}

var errRestored = errors.New("the API server's store went back to an older state")

type ordering int

const (
	no ordering = iota
	yes
	incomparable
)

// older reports whether version a comes before b.
func older(a, b string) ordering {
	c, err := resourceversion.CompareResourceVersion(a, b)
	switch {
	case err != nil:
		return incomparable
	case c < 0:
		return yes
	}
	return no
}

// see takes in a look at the Lease. An older state that a watch delivers is
// ignored, and so is the answer to a read that was asked before the newer state
// was known. A read asked later that shows an older state means that the store
// was restored from a backup: the term cannot be relied on any more.
func (m *Machine) see(ev Seen) {
	if ev.Lease == nil {
		m.seeDeleted(ev)
		return
	}
	if m.outdated(ev) {
		return
	}
	k := &m.known
	record, err := lease.Parse(ev.Lease)
	next := known{lease: ev.Lease, record: record, err: err, version: ev.Lease.ResourceVersion, since: m.now,
		restored: k.restored, print: lease.Fingerprint(ev.Lease), changed: k.changed}
	if next.print != k.print || older(next.version, k.version) != no {
		next.changed = m.now
	}
	*k = next
	if err != nil {
		m.say("the Lease cannot be understood, and nothing is done on it until it can: %v", err)
		return
	}
	m.remember(record)
}

// outdated reports whether a look at the Lease shows nothing that is not known.
// It notes a store that went back.
func (m *Machine) outdated(ev Seen) bool {
	k, version := &m.known, ev.Lease.ResourceVersion
	switch older(version, k.version) {
	case yes:
		if !ev.Live || ev.Asked.Elapsed <= k.since.Elapsed {
			return true
		}
		k.restored = fmt.Errorf("%w (resourceVersion %s after %s)", errRestored, version, k.version)
		return false
	case incomparable:
		return k.version != "" && !ev.Live
	}
	return version == k.version
}

func (m *Machine) seeDeleted(ev Seen) {
	if ev.Live {
		m.absent(ev.Asked)
		return
	}
	if older(ev.Version, m.known.version) == yes {
		return
	}
	m.known = known{version: ev.Version, since: m.now, restored: m.known.restored}
}

// absent takes in a live read, asked at that time, which found no Lease.
func (m *Machine) absent(asked clock.Instant) {
	if m.known.lease != nil && asked.Elapsed <= m.known.since.Elapsed {
		return
	}
	m.known = known{version: m.known.version, since: m.now, restored: m.known.restored}
	m.readFirst = false
}

// check compares what is known with the current start: as lease.Start.Check,
// but nil also where the Lease cannot be understood, since that says nothing.
func (m *Machine) check() error {
	switch {
	case m.known.restored != nil:
		return fmt.Errorf("%w: %w", lease.ErrEnded, m.known.restored)
	case m.known.lease == nil:
		return fmt.Errorf("%w: the Lease is gone", lease.ErrEnded)
	case m.known.err == nil:
		return m.term.start.Check(m.known.record)
	}
	return nil
}
