// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"errors"
	"fmt"
	"strconv"
)

// MaxToken is the greatest token of a claim. It leaves half of the positive
// int64 range free, so that no store's arithmetic on tokens can overflow.
const MaxToken int64 = 1 << 62

// maxNameLen bounds issuer and holder, in bytes. A holder is
// "<podName>_<podUID>" (at most 290) and an issuer
// "<clusterUID>/<namespace>/<lease>" (at most 354).
const maxNameLen = 512

// ErrInvalidClaim says that a claim is malformed. No store was asked.
var ErrInvalidClaim = errors.New("invalid fencing claim")

// Claim is what a holder presents to a resource with every write.
type Claim struct {
	// Issuer names the sequence that the token belongs to:
	// "<clusterUID>/<namespace>/<lease>". Tokens of two issuers are never
	// compared.
	Issuer string
	// Token is the number of the grant, from 1 to MaxToken. It is greater than
	// that of every earlier grant by the same issuer.
	Token int64
	// Holder is who the grant went to: "<podName>_<podUID>". It tells two
	// holders of one token apart, should a restored issuer grant it twice.
	Holder string
}

// Validate returns an error that matches ErrInvalidClaim unless the claim can
// be presented to every store: a token from 1 to MaxToken, and an issuer and a
// holder of 1 to 512 printable ASCII characters without spaces, since claims
// travel in headers, environments and keys.
func (c Claim) Validate() error {
	if err := validateName("issuer", c.Issuer); err != nil {
		return err
	}
	if err := validateName("holder", c.Holder); err != nil {
		return err
	}
	if c.Token < 1 || c.Token > MaxToken {
		return fmt.Errorf("%w: token %d is not between 1 and 2^62", ErrInvalidClaim, c.Token)
	}
	return nil
}

// String describes the claim for logs and error texts. It is not a format to
// parse.
func (c Claim) String() string {
	return fmt.Sprintf("token %d of %s (issuer %s)", c.Token, quoteOrNobody(c.Holder), c.Issuer)
}

// ValidateIssuer returns an error that matches ErrInvalidClaim unless issuer
// can be part of a claim.
func ValidateIssuer(issuer string) error { return validateName("issuer", issuer) }

// ParseToken reads a token in its one canonical form: decimal digits without
// sign, space or leading zero, from 1 to MaxToken. Anything else, also a number
// that other parsers would read, is an error that matches ErrInvalidClaim: two
// spellings of one token must not exist where stores compare text.
func ParseToken(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || n > MaxToken || strconv.FormatInt(n, 10) != s {
		return 0, fmt.Errorf("%w: token %q is not a plain decimal number between 1 and 2^62", ErrInvalidClaim, s)
	}
	return n, nil
}

func validateName(field, s string) error {
	if s == "" {
		return fmt.Errorf("%w: the %s is empty", ErrInvalidClaim, field)
	}
	if len(s) > maxNameLen {
		return fmt.Errorf("%w: the %s has %d bytes, at most %d are allowed", ErrInvalidClaim, field, len(s), maxNameLen)
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return fmt.Errorf("%w: the %s %q has a character that is not printable ASCII, or a space", ErrInvalidClaim, field, s)
		}
	}
	return nil
}

func quoteOrNobody(holder string) string {
	if holder == "" {
		return "nobody"
	}
	return strconv.Quote(holder)
}
