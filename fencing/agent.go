// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

// LeaseFile is where the agent keeps what it knows of the lease, for processes
// that were not started by it and have no environment from it. The agent
// replaces the file as a whole, so that the parts of a claim in it are always
// of one grant.
const LeaseFile = "/var/run/leasehold/lease.json"

// maxLease bounds what is read of a file or an answer, in bytes.
const maxLease = 64 << 10

// leaseState is the agent's word on the lease: the content of LeaseFile, and
// what it answers at /lease. Fields that are not listed are ignored.
type leaseState struct {
	Held   bool      `json:"held"`
	Issuer string    `json:"issuer"`
	Token  jsonToken `json:"token"`
	Holder string    `json:"holder"`
}

// jsonToken is a token in JSON: a string of digits, as some parsers round
// numbers above 2^53, or a number.
type jsonToken string

func (t *jsonToken) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(t))
	}
	var n json.Number
	if err := json.Unmarshal(b, &n); err != nil {
		return err
	}
	*t = jsonToken(n)
	return nil
}

// FromFile reads the claim from a file with what the agent says of the lease in
// JSON, usually LeaseFile. A file that is missing or empty, or that says that
// the lease is not held, gives an error that matches ErrNoClaim; any other that
// has no valid claim one that matches ErrInvalidClaim.
//
// The file tells what was so when it was written. Read it once for each term,
// before the raise; a claim that is read anew for each write would let the old
// term's work go on under the new one's name.
func FromFile(path string) (Claim, error) {
	f, err := os.Open(path) //nolint:gosec // The caller's own choice.
	switch {
	case errors.Is(err, os.ErrNotExist):
		return Claim{}, fmt.Errorf("%w: there is no file %s; it is the agent's, so run the command in its pod, "+
			"with the agent's directory mounted", ErrNoClaim, path)
	case err != nil:
		return Claim{}, err
	}
	defer func() { _ = f.Close() }() // only read
	c, err := readLease(f)
	if err != nil {
		return Claim{}, fmt.Errorf("file %s: %w", path, err)
	}
	return c, nil
}

// FromAgent asks the agent for the claim, at a URL such as
// "http://127.0.0.1:8462/lease". An agent that does not hold the lease gives an
// error that matches ErrNoClaim, one that cannot be reached the error of the
// client. A nil client is http.DefaultClient.
//
// As with FromFile: ask once for each term.
func FromAgent(ctx context.Context, client *http.Client, url string) (Claim, error) {
	if client == nil {
		client = http.DefaultClient
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Claim{}, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return Claim{}, fmt.Errorf("ask the agent: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // only read
	if resp.StatusCode != http.StatusOK {
		return Claim{}, fmt.Errorf("ask the agent: %w: %s answers %s", ErrNoClaim, url, resp.Status)
	}
	c, err := readLease(resp.Body)
	if err != nil {
		return Claim{}, fmt.Errorf("answer of %s: %w", url, err)
	}
	return c, nil
}

func readLease(r io.Reader) (Claim, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxLease+1))
	switch {
	case err != nil:
		return Claim{}, err
	case len(text) == 0:
		return Claim{}, fmt.Errorf("%w: it is empty", ErrNoClaim)
	case len(text) > maxLease:
		return Claim{}, fmt.Errorf("%w: it has more than %d bytes", ErrInvalidClaim, maxLease)
	}
	var s leaseState
	if err := json.Unmarshal(text, &s); err != nil {
		return Claim{}, fmt.Errorf("%w: it is no JSON of a lease: %w", ErrInvalidClaim, err)
	}
	if !s.Held {
		return Claim{}, fmt.Errorf("%w: the lease is not held", ErrNoClaim)
	}
	token, err := ParseToken(string(s.Token))
	if err != nil {
		return Claim{}, err
	}
	c := Claim{Issuer: s.Issuer, Token: token, Holder: s.Holder}
	return c, c.Validate()
}
