// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"leasehold.dev/internal/holder/core"
)

// Do makes the request that a machine asks for.
func (c *Client) Do(ctx context.Context, a core.Send) core.Reply {
	var l *coordinationv1.Lease
	var err error
	switch a.Kind {
	case core.Read:
		l, err = c.Get(ctx, a.Timeout)
	case core.Create:
		l, err = c.Create(ctx, a.Lease, a.Timeout)
	default:
		l, err = c.Update(ctx, a.Lease, a.Timeout)
	}
	return core.Reply{Lease: l, Failure: Classify(err), Err: err}
}

// Event turns what a watcher saw into an event.
func (c Change) Event() core.Event {
	return core.Seen{Lease: c.Lease, Version: c.Version, Live: c.Live, Asked: c.Asked}
}

// Classify says what the end of a request tells about the Lease. Throttling and
// errors of the server tell nothing, and are tried again.
func Classify(err error) core.Failure {
	switch {
	case err == nil:
		return core.None
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return core.Conflict
	case apierrors.IsNotFound(err):
		return core.Absent
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), apierrors.IsBadRequest(err):
		return core.Refused
	}
	return core.Unknown
}
