// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mysql guards data in MariaDB and MySQL with a fencing mark: one row
// for each protected resource, in the same database as the data.
//
// # How it works
//
// A write first reads the mark with LOCK IN SHARE MODE, decides on what it read,
// and keeps the lock until its transaction ends. A raise updates the row. The
// two conflict, so for any write and any raise one of two things happens:
//
//   - The write locked first. The raise waits until it has committed, and the
//     new holder, which reads after the raise, sees what it wrote.
//   - The raise locked first. The write waits, then reads the row's newest
//     version, since a locking read never looks at a snapshot, and is refused.
//
// InnoDB grants locks in order of arrival, so later writes wait behind a raise
// that waits, and cannot keep it out. This holds at every isolation level.
//
// Forms that look alike do not hold: a plain SELECT of the mark in the
// transaction of the write, which reads a snapshot, and at READ COMMITTED a
// sub-select of it inside the write. The tests of this package show each of
// them letting a stale write in.
//
// # A transaction that ends in the middle
//
// A deadlock makes InnoDB roll the whole transaction back. If the session is in
// its usual mode, autocommit, a program that overlooks the error goes on with
// statements that commit one by one, and the lock on the mark is gone. Any
// statement that commits implicitly, such as DDL, has the same effect. [Guard.Tx]
// therefore leaves autocommit mode for the time of the transaction, sets a
// savepoint after the check, and releases it before it commits: a savepoint that
// is still there proves that the transaction, and so the lock, is still the one
// of the check.
//
// # Setting up
//
// [Install] creates the tables, and [Guard.Arm] the mark of a resource, both as
// an operator. The account of the holders needs, besides its rights on the data,
//
//	GRANT SELECT, UPDATE (token, holder, raised_at) ON app.leasehold_mark TO app;
//
// The data source name needs clientFoundRows=true: without it, a statement that
// writes values which are there already reports 0 rows, as if its row were
// missing. Writes and raises are refused until the connections have it.
//
// # Traps
//
//   - Only InnoDB has transactions. What is written to a table of another engine
//     is neither fenced nor rolled back.
//   - A holder that freezes inside a transaction makes its successor's raise
//     wait, until innodb_lock_wait_timeout (fencing.ErrRetry) or until its
//     session ends. MariaDB's idle_transaction_timeout ends such sessions.
//   - Raise, read and write on the primary. A replica that is promoted without
//     the raise has lost it, and the holder finds fencing.ErrNotRaised.
//   - Whatever goes round the guard is not fenced: statements of other accounts,
//     of other sessions, and of triggers and events that run without a claim.
package mysql
