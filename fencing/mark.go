// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing

import "fmt"

// Mark is what a resource remembers: the newest claim that it accepted. The
// zero Mark stands for a resource without one, which refuses everything.
//
// A mark that was armed and not raised yet has token 0 and no holder. One that
// an operator adopted for an issuer that it has known before starts at that
// issuer's old token, also without a holder.
type Mark struct {
	Issuer string
	Token  int64
	Holder string
}

// Armed tells whether there is a mark at all.
func (m Mark) Armed() bool { return m.Issuer != "" }

// String describes the mark for logs and error texts.
func (m Mark) String() string {
	if !m.Armed() {
		return "no mark"
	}
	return fmt.Sprintf("token %d of %s (issuer %s)", m.Token, quoteOrNobody(m.Holder), m.Issuer)
}

// DecideRaise tells whether a claim may raise the mark: nil if its token is
// greater than the mark's, or if the mark is this very claim already, so that a
// raise can be repeated. Otherwise the error says why not.
//
// A store decides in its own atomic terms; adapters use this function for the
// reason, on the mark that refused, and tests as the model.
func DecideRaise(m Mark, c Claim) error {
	if err := sameSequence(m, c); err != nil {
		return err
	}
	if c.Token > m.Token || holds(m, c) {
		return nil
	}
	return &FencedError{Mine: c, Newest: m}
}

// DecideWrite tells whether a claim may write under the mark: nil if and only
// if the mark is this very claim. A claim above the mark is refused too, with
// ErrNotRaised: its holder has not read the state after a raise.
func DecideWrite(m Mark, c Claim) error {
	if err := sameSequence(m, c); err != nil {
		return err
	}
	switch {
	case holds(m, c):
		return nil
	case c.Token > m.Token:
		return &NotRaisedError{Mine: c, Newest: m}
	default:
		return &FencedError{Mine: c, Newest: m}
	}
}

// sameSequence tells whether the tokens of mark and claim are of one sequence.
func sameSequence(m Mark, c Claim) error {
	if err := c.Validate(); err != nil {
		return err
	}
	switch {
	case !m.Armed():
		return &NotArmedError{Mine: c}
	case m.Issuer != c.Issuer:
		return &ForeignError{Mine: c, Newest: m}
	}
	return nil
}

// holds assumes one issuer. Equal tokens alone are not enough: an issuer that
// was restored from a backup grants the same numbers again.
func holds(m Mark, c Claim) bool { return m.Token == c.Token && m.Holder == c.Holder }
