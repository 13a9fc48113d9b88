// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// The environment of a holder, set by Leasehold for the container that does
// the work.
const (
	EnvToken  = "FENCING_TOKEN"
	EnvHolder = "FENCING_HOLDER"
	EnvIssuer = "FENCING_ISSUER"
)

// ErrNoClaim says that this process, or this context, was given no claim. Work
// that needs one must not start.
var ErrNoClaim = errors.New("no fencing claim")

// FromEnv reads the claim of this process from FENCING_TOKEN, FENCING_HOLDER
// and FENCING_ISSUER.
//
// A variable that is missing or empty gives an error that matches ErrNoClaim:
// a kubelet sets a variable that refers to a missing annotation to the empty
// string, and "no token" must never pass for a small one. A malformed value
// matches ErrInvalidClaim.
func FromEnv() (Claim, error) {
	token, err := requireEnv(EnvToken)
	if err != nil {
		return Claim{}, err
	}
	var c Claim
	if c.Token, err = ParseToken(token); err != nil {
		return Claim{}, fmt.Errorf("environment variable %s: %w", EnvToken, err)
	}
	if c.Holder, err = requireEnv(EnvHolder); err != nil {
		return Claim{}, err
	}
	if c.Issuer, err = requireEnv(EnvIssuer); err != nil {
		return Claim{}, err
	}
	if err := c.Validate(); err != nil {
		return Claim{}, fmt.Errorf("environment variables %s and %s: %w", EnvHolder, EnvIssuer, err)
	}
	return c, nil
}

func requireEnv(name string) (string, error) {
	value, set := os.LookupEnv(name)
	switch {
	case !set:
		return "", fmt.Errorf("%w: environment variable %s is not set; "+
			"run this process in a pod of a Leasehold lease, or under the Leasehold agent", ErrNoClaim, name)
	case value == "":
		return "", fmt.Errorf("%w: environment variable %s is set but empty: the pod annotation that it is taken from was missing "+
			"when the container started; let the pod wait for its grant with the scheduling gate leasehold.dev/lease, "+
			"or run the command under the Leasehold agent, which sets the variable at each start", ErrNoClaim, name)
	}
	return value, nil
}

type contextKey struct{}

// NewContext returns a context that carries the claim, for code that writes on
// behalf of a term without knowing where its claim came from.
func NewContext(ctx context.Context, c Claim) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// FromContext returns the claim that NewContext put there, or an error that
// matches ErrNoClaim.
func FromContext(ctx context.Context) (Claim, error) {
	c, ok := ctx.Value(contextKey{}).(Claim)
	if !ok {
		return Claim{}, fmt.Errorf("%w: the context carries none; put it there with fencing.NewContext", ErrNoClaim)
	}
	return c, nil
}
