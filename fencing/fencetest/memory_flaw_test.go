// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"errors"
	"strconv"
	"strings"

	"leasehold.dev/fencing"
)

// flaw is one mistake.
type flaw string

// decide is the rule, or a mistake.
func (c *client) decide(rule func(fencing.Mark, fencing.Claim) error, m fencing.Mark, cl fencing.Claim) error {
	err := rule(m, cl)
	fenced, _ := errors.AsType[*fencing.FencedError](err)
	switch {
	case c.flaw == missingIsZero && errors.Is(err, fencing.ErrNotArmed),
		c.flaw == aboveIsGood && errors.Is(err, fencing.ErrNotRaised),
		c.flaw == equalIsGood && fenced != nil && fenced.Collision(),
		c.flaw == anyIssuer && errors.Is(err, fencing.ErrForeign),
		c.flaw == unchecked && errors.Is(err, fencing.ErrInvalidClaim),
		c.flaw == asFloat && fenced != nil && float64(cl.Token) >= float64(m.Token) && cl.Holder == m.Holder,
		c.flaw == asText && fenced != nil && strconv.FormatInt(cl.Token, 10) >= strconv.FormatInt(m.Token, 10),
		c.flaw == splitNames && fenced != nil && strings.Split(cl.Holder, "/")[0] == strings.Split(m.Holder, "/")[0] && m.Token == cl.Token:
		return nil
	case c.flaw == saysTooLittle && fenced != nil:
		return &fencing.FencedError{Mine: cl}
	}
	return err
}
