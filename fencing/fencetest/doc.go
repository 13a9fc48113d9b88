// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fencetest checks adapters of package fencing on their real stores.
// Anybody's adapter can be run through it:
//
//	func TestConformance(t *testing.T) {
//		fencetest.Run(t, fencetest.Suite{
//			Adapter: "mystore",
//			Store:   "127.0.0.1:1234",
//			Open: func(t *testing.T, r fencetest.Resource) fencetest.Target {
//				return newTarget(t, r.Addr, r.Name)
//			},
//			Naive: []fencetest.Naive{{
//				Name: "checks, then writes", Open: openNaive,
//				CaughtBy: []string{fencetest.CaseFrozen, fencetest.CaseContended},
//			}},
//		})
//	}
//
// # What it does
//
// A [Target] is the adapter's guard of a resource whose data is a journal. Two
// or more clients of it play holders that follow each other, and the cases put
// the old one in every position in which it can be when the new one comes: with
// a request under way, stopped at any of its messages, inside an open
// transaction, behind a lock, with its reply lost. Then the journal tells what
// the store has let in, and what the clients were told is compared with it.
// The contended case does all of it at random, and also looks for one order of
// all operations that explains what every client saw.
//
// # Why to believe it
//
// A check that cannot fail shows nothing. So each suite brings naive variants of
// its adapter, and passes only if the named cases fail on them: write at least
// the one that checks the mark and then writes. The suite's own tests run every
// case on a flaw that it must find.
//
// # What an adapter must do to pass
//
//   - The guard's methods answer as package fencing says, with the mark that
//     refused, for all claims that are valid.
//   - Any error of a write but fencing.ErrUnknown means that it was not done and
//     will not be. Retries by the store's client that could do a write twice
//     must be off.
//   - Raise, Arm and Adopt can be repeated; a lost reply to them is
//     fencing.ErrRetry.
//   - A raise beside an open transaction waits for it, or asks for another try,
//     or makes its commit fail.
//
// Clients must have the patience to be frozen for seconds: no short timeouts of
// requests.
package fencetest
