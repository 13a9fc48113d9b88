// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"context"

	"leasehold.dev/fencing"
)

// Entry is one accepted write in the journal of a target.
type Entry struct {
	Token  int64
	Holder string
	Nonce  string // unique to the attempt
}

// Target is a client of a resource in the store under test. The resource has a
// mark, and a journal that starts empty. It is the adapter's guard with two
// methods more.
type Target interface {
	fencing.Guard
	// Append adds an entry at the end of the journal, on condition of the
	// claim, by the adapter's own way of writing. Its error has a class of
	// package fencing if the adapter gave it one; any error but
	// fencing.ErrUnknown means that the entry was not added and will not be.
	Append(ctx context.Context, claim fencing.Claim, nonce string) error
	// Journal returns all entries in the order in which they took effect.
	Journal(ctx context.Context) ([]Entry, error)
}

// A target implements what follows where the store or the adapter has it. A
// case that needs something which a target lacks fails, unless Suite.Without
// gives the reason.

// Transactional is a target whose writes can be part of a longer transaction.
type Transactional interface {
	// Begin opens a transaction, makes it depend on the claim, appends an entry
	// and leaves it open.
	Begin(ctx context.Context, claim fencing.Claim, nonce string) (Transaction, error)
}

// Transaction is one that is open.
type Transaction interface {
	// Commit returns what the adapter returns for a commit, with its class.
	Commit(ctx context.Context) error
}

// Waiter is a target on which operations may wait for a lock on the server. A
// raise that is refused with fencing.ErrRetry because it would have to wait
// needs no Waiter: the suite repeats it.
type Waiter interface {
	// Waiting tells how many operations on the resource wait at this moment.
	Waiting(ctx context.Context) (int, error)
}

// Locker is a target whose Append waits, after its check, for a lock that any
// session of the store can take on the data. It must be a Waiter too.
type Locker interface {
	// Lock takes the lock in a session of its own, for the data and not for the
	// mark, and returns what lets go of it.
	Lock(ctx context.Context) (unlock func(context.Context) error, err error)
}

// MarkDropper is a target whose mark can be deleted behind the adapter's back,
// as by an eviction, a TRUNCATE or a hand. The journal stays.
type MarkDropper interface {
	DropMark(ctx context.Context) error
}

// Restorer is a target whose store can be put back to an earlier state: by a
// fail-over to a replica that is behind, by a backup, or by writing the older
// mark and journal over the newer ones, whichever is nearest to real.
type Restorer interface {
	// Snapshot remembers mark and journal, and returns what puts them back.
	Snapshot(ctx context.Context) (restore func(context.Context) error, err error)
}

// Remover is a target whose data can be deleted on condition of a claim. The
// mark must survive it: otherwise a stale writer could create the data anew.
type Remover interface {
	Remove(ctx context.Context, claim fencing.Claim) error
}

// Bare is a target whose store refuses a write that carries no claim at all,
// sent by somebody who does not use the library.
type Bare interface {
	// AppendBare tries to append an entry in the store's own terms. An error
	// means that it was not done.
	AppendBare(ctx context.Context, nonce string) error
}
