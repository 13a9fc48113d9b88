// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redis guards data in Redis with a fencing mark: one hash for each
// protected resource, in the same hash slot as the data.
//
// # How it works
//
// A server runs one script at a time and to its end. A guarded write is one
// script (lua/check.lua, and behind it the write) that compares the mark with
// the claim and writes; a raise is another (lua/raise.lua). So of any write and
// any raise one comes first as a whole. The scripts are files that clients of
// any language can send.
//
// Tokens are compared as text, by length and then by bytes. As numbers of Lua,
// 2^53 and 2^53+1 would be equal.
//
// # What a fail-over does
//
// Replication is asynchronous: a raise that was acknowledged can be missing on
// the replica that is promoted, and then older holders would fit the mark there.
// Three things meet that.
//
//   - With [Options].Replicas a raise counts only once so many replicas have
//     it: WAIT follows it on the same connection. (On another connection WAIT
//     answers for what that one has written, which is nothing.)
//   - The mark has the replication id of the server it was raised on, and each
//     write compares it with the server's, in its script. The id changes when a
//     replica is promoted and when a server starts. A mark of another id keeps
//     its token and has lost its holder, so that nobody can write: the newest
//     holder is refused with fencing.ErrNotRaised if its raise was lost, and may
//     raise anew, and otherwise with fencing.ErrFenced, since a raise above it
//     could have been lost as well. What is needed then is a grant with a new
//     token.
//   - A client that is told READONLY, MOVED or LOADING gets fencing.ErrRetry:
//     nothing was done.
//
// What stays open: between the loss of the newest raise and the next one a
// holder whose raise the replica has missed too can raise again, since to that
// server its token is new. Replicas closes this up to failures of
// so many replicas at once. And an old primary that is cut off from its
// replicas, but not from the old holder, accepts writes until it rejoins, which
// are then lost; min-replicas-to-write bounds that. Redis is no consensus store:
// where a stale write must never be acknowledged, use etcd or PostgreSQL.
//
// # What it refuses
//
// Arm and Raise refuse a server whose maxmemory-policy can evict the mark
// (allkeys-*), and take a TTL off the mark. [New] refuses clients that
// read from replicas, and rings.
//
// # Traps
//
//   - Read the state after Raise, and from the primary.
//   - Redis does not roll back. If a command of [Guard.Exec] fails after others
//     were done, or a script of [Guard.Run] in its middle, the error is
//     fencing.ErrUnknown.
//   - Whatever goes round the guard is not fenced. FLUSHALL deletes marks: then
//     everybody is refused. Use ACLs to keep others from the keys of the mark.
package redis
