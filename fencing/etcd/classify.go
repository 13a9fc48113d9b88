// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"

	"leasehold.dev/fencing"
)

// refusedCodes are those of etcd's own errors with which it says that it did not
// do what it was asked. Others, such as a time-out, say that it does not know.
// gRPC itself has errors of these codes too, which say nothing of the kind.
var refusedCodes = map[codes.Code]bool{
	codes.InvalidArgument: true, codes.NotFound: true, codes.PermissionDenied: true, codes.ResourceExhausted: true,
	codes.FailedPrecondition: true, codes.OutOfRange: true, codes.Unauthenticated: true,
}

// classify gives an error its class in package fencing, or returns it as it is:
// then nothing was done, and trying again would not help. A failure of a write
// is fencing.ErrUnknown unless etcd says that it was not done; etcd's client
// sends it once.
func classify(ctx context.Context, err error, claim fencing.Claim, writing bool) error {
	if err == nil || isRefusal(err) {
		return err
	}
	etcdErr, ok := errors.AsType[rpctypes.EtcdError](err)
	switch {
	case ok && errors.Is(etcdErr, rpctypes.ErrTooManyRequests):
		return &fencing.RetryError{Mine: claim, Err: err}
	case ok && refusedCodes[etcdErr.Code()]:
		return err
	case writing:
		return &fencing.UnknownError{Mine: claim, Err: err}
	case ctx.Err() != nil: // the caller's doing, and it can be repeated
		return err
	default:
		return &fencing.RetryError{Mine: claim, Err: err}
	}
}

// isRefusal tells whether the error is one of this package.
func isRefusal(err error) bool {
	return errors.Is(err, fencing.ErrNotArmed) || errors.Is(err, errDamaged)
}
