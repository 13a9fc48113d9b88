// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package httpfence

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"leasehold.dev/fencing"
)

const (
	contentType = "application/problem+json"
	// typePrefix begins the URIs that name the problems. They are names, and need
	// not lead anywhere.
	typePrefix = "https://leasehold.dev/problems/"
)

// problem is the body of a refusal (RFC 9457).
type problem struct {
	Type   string    `json:"type"`
	Title  string    `json:"title"`
	Status int       `json:"status"`
	Detail string    `json:"detail,omitempty"`
	Newest *markJSON `json:"newest,omitempty"` // the mark that refused the claim
}

// markJSON is a mark. Its token is text, since many parsers read numbers as
// floating point, which cannot hold 62 bits.
type markJSON struct {
	Issuer string `json:"issuer"`
	Token  string `json:"token"`
	Holder string `json:"holder,omitempty"`
}

func toJSON(m fencing.Mark) *markJSON {
	return &markJSON{Issuer: m.Issuer, Token: strconv.FormatInt(m.Token, 10), Holder: m.Holder}
}

// mark is the zero Mark where there is none, or none that can be read.
func (m *markJSON) mark() fencing.Mark {
	if m == nil {
		return fencing.Mark{}
	}
	token, err := strconv.ParseInt(m.Token, 10, 64)
	if err != nil {
		return fencing.Mark{}
	}
	return fencing.Mark{Issuer: m.Issuer, Token: token, Holder: m.Holder}
}

// kind is one way to refuse: its name and status, and the error that it is made
// from and that the client makes of it.
type kind struct {
	name   string
	status int
	title  string
	detail string
	tell   bool  // the error's own text is for the client
	class  error // nil: any other
	back   func(claim fencing.Claim, newest fencing.Mark, detail error) error
}

var kinds = []kind{
	{"no-claim", http.StatusPreconditionRequired, "The request has no fencing claim", "", true, fencing.ErrNoClaim,
		func(_ fencing.Claim, _ fencing.Mark, detail error) error {
			return fmt.Errorf("%w, says the service: %w", fencing.ErrNoClaim, detail)
		}},
	{"malformed", http.StatusBadRequest, "The fencing claim is malformed", "", true, fencing.ErrInvalidClaim,
		func(_ fencing.Claim, _ fencing.Mark, detail error) error {
			return fmt.Errorf("%w, says the service: %w", fencing.ErrInvalidClaim, detail)
		}},
	{"fenced", http.StatusPreconditionFailed, "A newer holder is there", "", true, fencing.ErrFenced,
		func(c fencing.Claim, m fencing.Mark, _ error) error { return &fencing.FencedError{Mine: c, Newest: m} }},
	{"foreign", http.StatusPreconditionFailed, "The mark is of another issuer", "", true, fencing.ErrForeign,
		func(c fencing.Claim, m fencing.Mark, _ error) error { return &fencing.ForeignError{Mine: c, Newest: m} }},
	{"not-raised", http.StatusConflict, "The mark is older than the claim", "", true, fencing.ErrNotRaised,
		func(c fencing.Claim, m fencing.Mark, _ error) error {
			return &fencing.NotRaisedError{Mine: c, Newest: m}
		}},
	{"not-armed", http.StatusConflict, "The resource has no mark", "", true, fencing.ErrNotArmed,
		func(c fencing.Claim, _ fencing.Mark, _ error) error { return &fencing.NotArmedError{Mine: c} }},
	{"retry", http.StatusServiceUnavailable, "Nothing was done; try again", "The storage had a conflict or could not be reached.",
		false, fencing.ErrRetry,
		func(c fencing.Claim, _ fencing.Mark, detail error) error {
			return &fencing.RetryError{Mine: c, Err: detail}
		}},
	{"unknown", http.StatusGatewayTimeout, "It was done, or it was not", "The storage's reply was lost.", false, fencing.ErrUnknown,
		func(c fencing.Claim, _ fencing.Mark, detail error) error {
			return &fencing.UnknownError{Mine: c, Err: detail}
		}},
	{"failed", http.StatusInternalServerError, "Nothing was done", "The service's own log says why.", false, nil,
		func(_ fencing.Claim, _ fencing.Mark, detail error) error { return detail }},
}

// kindOf returns how to refuse for an error.
func kindOf(err error) kind {
	for _, k := range kinds {
		if k.class != nil && errors.Is(err, k.class) {
			return k
		}
	}
	return kinds[len(kinds)-1]
}

// kindNamed returns the kind with the type URI of a problem.
func kindNamed(uri string) (kind, bool) {
	name, ours := strings.CutPrefix(uri, typePrefix)
	for _, k := range kinds {
		if ours && k.name == name {
			return k, true
		}
	}
	return kind{}, false
}

// markOf returns the mark that an error carries, or the zero Mark.
func markOf(err error) fencing.Mark {
	if e, ok := errors.AsType[*fencing.FencedError](err); ok {
		return e.Newest
	}
	if e, ok := errors.AsType[*fencing.NotRaisedError](err); ok {
		return e.Newest
	}
	if e, ok := errors.AsType[*fencing.ForeignError](err); ok {
		return e.Newest
	}
	return fencing.Mark{}
}
