// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"slices"
)

// The cases, by the names under which they run.
const (
	// CaseArm: a resource without a mark refuses everything; arming gives it
	// one, once, for one issuer.
	CaseArm = "arm"
	// CaseRaise: who may raise the mark, and who not.
	CaseRaise = "raise"
	// CaseWrite: who may write under it, and that the refusal says why.
	CaseWrite = "write"
	// CaseNotRaised: a claim above the mark does not write before it has raised.
	CaseNotRaised = "not-raised"
	// CaseCollision: two holders with one token are told apart.
	CaseCollision = "collision"
	// CaseIssuer: another issuer is refused until it is adopted, and one that
	// comes back is held to its old token.
	CaseIssuer = "issuer"
	// CaseBehind: a refusal has in it what a report of it needs.
	CaseBehind = "behind"
	// CaseNumbers: tokens are compared as numbers of 62 bits, not as text or as
	// floating point.
	CaseNumbers = "numbers"
	// CaseNames: holders and issuers of any printable characters, and long ones.
	CaseNames = "names"
	// CaseOmitted: a claim that is not complete is refused, and, where the store
	// itself enforces (Bare), a write without one.
	CaseOmitted = "omitted-token"
	// CaseReadBeforeRaise: a write that is accepted before the raise returns is
	// seen by a read after it.
	CaseReadBeforeRaise = "read-before-raise"
	// CaseConcurrentRaise: of raises at the same moment the greatest stays, and
	// of two with one token one is refused.
	CaseConcurrentRaise = "concurrent-raise"
	// CaseFrozen: a writer is stopped at each of its messages, or wherever it
	// calls Resource.Pause, while another raises, reads and writes.
	CaseFrozen = "frozen-writer"
	// CaseTransaction: a writer is stopped inside an open transaction
	// (Transactional).
	CaseTransaction = "open-transaction"
	// CaseRowLock: a writer that has been checked waits for the data (Locker).
	CaseRowLock = "row-lock"
	// CaseLostWrite: the connection breaks at each message of a write, before
	// the request arrives and before the reply does.
	CaseLostWrite = "lost-write"
	// CaseLostRaise: the same for a raise.
	CaseLostRaise = "lost-raise"
	// CaseMarkLost: the mark is deleted (MarkDropper).
	CaseMarkLost = "mark-lost"
	// CaseRestored: the store goes back to before the last raise (Restorer).
	CaseRestored = "restored"
	// CaseDeleted: the data is deleted and created again (Remover).
	CaseDeleted = "deleted-data"
	// CaseContended: many holders take over from each other at random, stale
	// ones go on writing, clients freeze and connections break at random; the
	// journal is judged, and the history checked for linearizability.
	CaseContended = "contended"
)

// kase is one case.
type kase struct {
	name string
	run  func(*trial)
}

var cases = []*kase{
	{CaseArm, arm},
	{CaseRaise, raise},
	{CaseWrite, write},
	{CaseNotRaised, notRaised},
	{CaseCollision, collision},
	{CaseIssuer, issuers},
	{CaseBehind, behind},
	{CaseNumbers, numbers},
	{CaseNames, names},
	{CaseOmitted, omitted},
	{CaseReadBeforeRaise, readBeforeRaise},
	{CaseConcurrentRaise, concurrentRaise},
	{CaseFrozen, frozen},
	{CaseTransaction, openTransaction},
	{CaseRowLock, rowLock},
	{CaseLostWrite, lostWrite},
	{CaseLostRaise, lostRaise},
	{CaseMarkLost, markLost},
	{CaseRestored, restored},
	{CaseDeleted, deleted},
	{CaseContended, contended},
}

// find returns the case of that name, or nil.
func find(name string) *kase {
	i := slices.IndexFunc(cases, func(k *kase) bool { return k.name == name })
	if i < 0 {
		return nil
	}
	return cases[i]
}
