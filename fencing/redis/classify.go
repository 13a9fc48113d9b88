// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"leasehold.dev/fencing"
)

// Codes with which the scripts of this package refuse.
var refusals = []string{"FENCED", "FOREIGN", "NOTRAISED"}

const (
	codeNotArmed = "NOTARMED"
	codeEvicting = "EVICTING"
	// codePartly: some commands of Exec were done.
	codePartly = "PARTLY"
)

// passing are codes of servers that did nothing, for a cause that may pass:
// another server has the slot or is the primary, or this one is starting, full
// or busy.
var passing = []string{
	"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "MASTERDOWN", "LOADING", "BUSY", "NOREPLICAS", "NOSCRIPT",
	"ERR max number of clients",
}

// lasting are codes of servers that did nothing and will not: the script could
// not start, or not make its first write.
var lasting = []string{"OOM", "MISCONF", "NOAUTH", "NOPERM", "WRONGPASS", "CROSSSLOT", "ERR Error compiling script"}

// decision gives the reason why a mark refused a claim.
type decision func(fencing.Mark, fencing.Claim) error

// failure is what was tried when an error came.
type failure struct {
	claim   fencing.Claim
	decide  decision
	writing bool // cannot be repeated blindly
	own     bool // the script is the caller's
}

// classify gives an error its class in package fencing, or returns it as it is:
// then nothing was done, and trying again would not help. A failure of a write
// is fencing.ErrUnknown unless it is known that nothing was done.
func classify(ctx context.Context, err error, f failure) error {
	if err == nil {
		return nil
	}
	if redisErr, ok := errors.AsType[goredis.Error](err); ok {
		return classifyReply(redisErr.Error(), err, f)
	}
	replicas, _ := errors.AsType[*replicasError](err)
	switch {
	case isUnsent(err):
		return &fencing.RetryError{Mine: f.claim, Err: err}
	case errors.Is(err, goredis.ErrClosed): // the caller's doing
		return err
	case f.writing:
		return &fencing.UnknownError{Mine: f.claim, Err: err}
	case replicas == nil && ctx.Err() != nil: // the caller's doing, and it can be repeated
		return err
	default:
		return &fencing.RetryError{Mine: f.claim, Err: err}
	}
}

func classifyReply(text string, err error, f failure) error {
	code, _, _ := strings.Cut(text, " ")
	switch {
	case slices.Contains(refusals, code):
		return refusal(text, err, f)
	case code == codeNotArmed:
		return &fencing.NotArmedError{Mine: f.claim}
	case code == codePartly:
		return &fencing.UnknownError{Mine: f.claim, Err: err}
	case code == codeEvicting:
		return fmt.Errorf("%w, which can evict the mark; set it to noeviction or volatile-lru", err)
	case hasPrefix(text, passing):
		return &fencing.RetryError{Mine: f.claim, Err: err}
	case f.own && !hasPrefix(text, lasting):
		return &fencing.UnknownError{Mine: f.claim, Err: err}
	default:
		return err
	}
}

func hasPrefix(text string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return text == p || strings.HasPrefix(text, p+" ") })
}

var markText = regexp.MustCompile(`^[A-Z]+ token=(\S+) issuer=(\S+) holder=(\S*)$`)

// refusal is the reason why the mark that the error carries refused the claim.
func refusal(text string, err error, f failure) error {
	match := markText.FindStringSubmatch(text)
	if match == nil {
		return fmt.Errorf("refused, by a mark that cannot be read from the error; stop writing: %w", err)
	}
	m, parseErr := parseMark(match[2], match[1], match[3])
	if parseErr != nil {
		return fmt.Errorf("refused, by a mark that cannot be read (%w); stop writing: %w", parseErr, err)
	}
	if reason := f.decide(m, f.claim); reason != nil {
		return reason
	}
	return fmt.Errorf("refused, for no reason that the mark in the error gives; stop writing: %w", err)
}

func parseMark(issuer, token, holder string) (fencing.Mark, error) {
	m := fencing.Mark{Issuer: issuer, Holder: holder}
	if token == "0" {
		return m, nil
	}
	var err error
	if m.Token, err = fencing.ParseToken(token); err != nil {
		return fencing.Mark{}, fmt.Errorf("the mark is damaged: %w", err)
	}
	return m, nil
}

// isUnsent tells whether there was no connection to send anything on.
func isUnsent(err error) bool {
	if _, ok := errors.AsType[*unsentError](err); ok {
		return true
	}
	opErr, ok := errors.AsType[*net.OpError](err)
	return ok && opErr.Op == "dial" || errors.Is(err, goredis.ErrPoolTimeout) || errors.Is(err, goredis.ErrPoolExhausted)
}
