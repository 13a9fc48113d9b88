// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sqlite guards data in SQLite with a fencing mark: one row for each
// protected resource, in the same database file as the data. It works with the
// driver modernc.org/sqlite.
//
// # How it works
//
// SQLite has one writer for each database file at a time. A write takes that
// place first, then reads the mark, and decides on what it read; it gives the
// place up when its transaction ends. A raise needs the place too. So for any
// write and any raise one of two things happens:
//
//   - The write came first. The raise finds the file busy until the write has
//     committed, and the new holder, which reads after the raise, sees what it
//     wrote.
//   - The raise came first. The write reads the mark after it, and is refused.
//
// It is the order that makes this safe: a transaction that reads the mark before
// it has the place of the writer decides on an old one. SQLite lets such a
// transaction write only if nobody else has written in between, in WAL mode and
// without; a check in a transaction of its own has no such help, and the tests of
// this package show it letting a stale write in.
//
// # A transaction that ends in the middle
//
// Some errors make SQLite roll the whole transaction back: a full disk, or a
// conflict with ON CONFLICT ROLLBACK. A program that overlooks the error goes on
// with statements that commit one by one, without a check. [Guard.Tx] therefore
// refuses, by a commit hook, every commit but its own, and sets a savepoint that
// must still be there at the end. The driver keeps one hook for each connection:
// one that the application has registered is replaced.
//
// # Setting up
//
// [Install] creates the tables, and [Guard.Arm] the mark of a resource. Arm
// refuses a database in memory, which forgets its mark, and one on a network file
// system, where SQLite's locks cannot be relied on.
//
// Give the data source name a busy_timeout, such as
// file:app.db?_pragma=busy_timeout(5000); what finds the file busy for longer is
// fencing.ErrRetry.
//
// # Traps
//
//   - A holder that freezes inside a transaction keeps everybody from writing,
//     and its successor from raising, until its process ends.
//   - Whoever can open the file can do anything with it. Triggers stop a mark
//     from going back or being deleted by accident.
//   - A copy of the file has a copy of the mark, which nobody raises any more.
//   - With synchronous=NORMAL in WAL mode a power cut may undo the last
//     transactions, raise and writes alike; the holder finds
//     fencing.ErrNotRaised. With synchronous=OFF it may destroy the file.
package sqlite
