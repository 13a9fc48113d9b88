// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resourcelock has a lock for client-go's LeaderElector and for
// controller-runtime's manager. It replaces resourcelock.LeaseLock in one line and
// mints a fencing token at each acquisition:
//
//	lock, err := resourcelock.New(resourcelock.Options{Config: config, Namespace: ns, Name: name, Identity: id})
//	…
//	leaderelection.LeaderElectionConfig{Lock: lock, …}          // client-go
//	ctrl.Options{LeaderElectionResourceLockInterface: lock, …}  // controller-runtime
//	…
//	claim, err := lock.Claim()
//
// # What it adds
//
// A LeaderElector decides by a record of its own, and by when the replies come. It
// may believe that it leads for longer than it does: after a late reply, a freeze,
// or while it tries to renew what another has. The lock does not change what the
// elector believes, but what it can write and claim:
//
//   - Claim gives the token only while the lock's own term can be trusted: it
//     stands on the Lease with this process's nonce, and its last renewal was sent
//     less than four fifths of the duration ago, on a clock that runs through
//     suspend. Whoever is not certain gets ErrNotHeld.
//   - The Lease is taken by the protocol of package lease only: after a release
//     by it, or unchanged for the longest duration that the Lease has had, on this
//     process's clock. An empty holder that nobody released, a record with a
//     shorter duration, and a created Lease are not free.
//   - A release is written only over this lock's own term. A LeaderElector looks at
//     what it remembers before it releases, and with LeaseLock may wipe its
//     successor's record.
//   - One elector's time as a leader has at most one token. When the term is lost,
//     the lock takes no other before the elector has noticed ("stopped leading"):
//     the work would go on from one term into another as if nobody had been
//     between.
//
// # What it cannot change
//
// A LeaderElector cancels the work's context after it has released, and notices a
// loss up to RenewDeadline late. Until then the work runs without a claim, beside
// the next leader, and its writes are refused by what checks the claim. Package
// leaderelect stops the work first.
//
// # Beside electors without it
//
// Candidates with LeaseLock may share the Lease with this lock, as during a
// roll-out. Neither starts while the other holds the Lease. LeaseLock knows no
// token, and so its holders have no claim. After one of them has released, this
// lock waits for one duration: an empty holder may also have been written by one
// that was no longer the holder. Such a late release over this lock's term ends
// it: the claim is gone with the next look at the Lease, and only candidates with
// LeaseLock take that Lease at once.
package resourcelock
