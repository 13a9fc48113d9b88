// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package record is the notebook of the end-to-end tests: a few tables in
// PostgreSQL into which probe workers write when they start, that they live, and
// what the fence said, all by the one clock of the database. The tests read from
// it what really ran, whatever any status says.
package record
