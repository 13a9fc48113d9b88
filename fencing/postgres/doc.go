// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package postgres guards data in PostgreSQL with a fencing mark: one row for
// each protected resource, in the same database as the data.
//
// # How it works
//
// A write first takes a share lock on the mark's row, on the condition that
// the row is the writer's claim, and keeps it until its transaction ends. A
// raise updates the row. The two conflict, so for any write and any raise one
// of two things happens:
//
//   - The write locked first. The raise waits until it has committed, and the
//     new holder, which reads after the raise, sees what it wrote.
//   - The raise locked first. The write waits, PostgreSQL then looks at the
//     row's newest version, the claim does not match, and the write is refused.
//
// This holds at READ COMMITTED, for single statements and transactions, for
// INSERT and DELETE as well as UPDATE, over any number of tables. At
// REPEATABLE READ and SERIALIZABLE an overtaken write fails with
// fencing.ErrRetry, and is refused when it is tried again.
//
// Forms that look alike do not hold: reading the mark without a lock, in a
// transaction of its own or in a sub-select of the write, which keeps the
// statement's old view of the mark while the write waits for its row; and
// FOR KEY SHARE, which does not conflict with the raise. The tests of this
// package show each of them letting a stale write in.
//
// Writers of one holder share the lock and do not wait for each other. Checks
// and raises also queue in a transaction-level advisory lock, for fairness
// alone; everything works through a transaction pooler.
//
// # Setting up
//
// [Install] creates the schema "leasehold" (schema.sql, which any client can
// run), and [Guard.Arm] the mark of a resource, both as an operator. The role
// of the holders needs only
//
//	GRANT USAGE ON SCHEMA leasehold TO app;
//
// and should neither own the schema nor be a superuser, so that it cannot lower
// or delete a mark. Set idle_in_transaction_session_timeout for it: a holder
// that freezes inside a transaction makes its successor's raise wait until the
// session ends. A raise that must not wait takes a context with a deadline, or
// lock_timeout, which gives fencing.ErrRetry.
//
// # Traps
//
//   - Raise, read and write on the primary. A replica may not have the raise
//     yet, and one that is promoted without it has lost the mark's last move;
//     replicate synchronously if a fail-over must not forget a raise. A holder
//     then finds fencing.ErrNotRaised.
//   - Whatever goes round the guard is not fenced: statements of another role,
//     and those that a Tx function sends over another connection.
//   - A mark that is truncated or deleted refuses everybody. A database that is
//     restored from a backup has an old mark: raise before reading, always.
package postgres
