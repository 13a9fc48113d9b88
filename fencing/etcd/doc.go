// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcd guards data in etcd with a fencing mark: one key for each
// protected resource, in the same etcd as the data.
//
// # How it works
//
// The value of the mark's key is the claim that raised it, in one spelling: the
// token with all of its 19 digits, the issuer, and the holder. A guarded write
// is one transaction, which etcd decides and applies as a whole, at one place in
// the order of all its transactions:
//
//	If(Value(mark) = claim) Then(the write) Else(Get(mark))
//
// A raise reads the mark and replaces it if it is still the one that was read:
//
//	If(ModRevision(mark) = seen) Then(Put(mark, claim))
//
// So of any write and any raise one comes first. Reads are linearizable unless
// they ask not to be: what is read after the raise has every write before it.
//
// Forms that look alike do not hold. Values compare as bytes, so that of tokens
// in plain decimal "9" is above "10"; a comparison of a revision with "less
// than" is true for a key that is missing; and a transaction that
// compares the key of a lock knows that the lock is held, and not by whom. The
// tests of this package show such forms letting a stale write in.
//
// # What it cannot protect
//
//   - An etcd that is restored from a snapshot has an old mark: the newest
//     holder gets fencing.ErrNotRaised, and an older one may write before it has
//     raised again. Raise before reading, always.
//   - Writes that go round the guard, also those of a deleted or lowered mark:
//     use etcd's roles to keep others from the keys of the data and from
//     those under [Prefix].
//
// # Traps
//
//   - Do not read with WithSerializable after the raise: the member may be
//     behind.
//   - The mark must have no etcd lease. A raise takes it off.
//   - Give every call a context with a deadline: without a quorum etcd's client
//     waits.
package etcd
