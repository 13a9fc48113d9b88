// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package model checks the lease protocol in all states of a small system: every
// step of every part, interleaved with every step of all others. It calls the
// real functions of packages lease and death on real objects, so that it checks
// the code and not a copy of it. It is run by its tests.
//
// # What is modelled
//
//   - Two controllers (observer.go, owner.go), each with a view of the Lease as
//     old as may be, and a clock of its own for the age of that view. They grant,
//     withdraw, end, mark and stamp pods, confirm for pods in which nothing can,
//     let go of pods that are deleted, record in the owner's status, create, open,
//     and remove the finalizer.
//   - Two pods (pods.go) with an agent each (agent.go), and a second agent that
//     somebody starts in the first pod. Agents confirm, renew, stop, succeed,
//     fail and release; they crash, and the kubelet restarts their container in
//     place and reports, sooner or later, what became of it. Or a sidecar, or no
//     agent at all (renewedBy Kubelet).
//   - The API server (store.go): an Update needs the UID and resourceVersion that
//     it was judged from.
//   - The network: requests of agents are late or lost, and so are replies
//     (except where Config.Instant leaves that to other configurations).
//   - Others (environment.go): foreign electors wipe and seize the Lease, people
//     delete it and change its configuration, and it may vanish in spite of its
//     finalizer.
//   - Time, in ticks. Clocks of different parts run at the same rate; a term is
//     trusted for the whole ticks within lease.Timing's trust.
//
// After every step S1, S2, S5, S6, S8 and S9 of the design must hold; and, of L1,
// that a term which only a proof can end has a pod that can prove it.
//
// # Bounds
//
// Each configuration (configs.go) is searched to the end, except under the race
// detector, where a search ends early. Within it time, the
// number of renewals and, where Budget.Grants is zero, of grants have no bound:
// numbers are renumbered by rank (canon.go), clocks stop where more makes no
// difference, and so the states are finite. Bounded are foreign writes,
// deletions, also of pods, crashes, second agents and edits, by Budget; and by the number of
// controllers and pods.
//
// # Reductions
//
// What cannot make a difference is not told apart:
//
//   - A controller's request that is late on its way is one that is made late,
//     from an old view: it succeeds only if nothing was written in between, and
//     what it was judged by only grew. For the same reason an old view is kept
//     only where it can still lead to a write.
//   - An agent's request that will be refused is as good as lost; a reply that
//     gives no trust any more, too. A request that outlives its sender was
//     applied before, with the reply lost.
//   - A paused process takes no step; a crashed controller takes none any more.
//   - Controllers are alike, and pods are (symmetry.go).
//
// Those that simplify makes are checked by a search that does without.
//
// # Not modelled
//
// Clock rates that differ (the margin in lease.Timing is for them); stopping the
// work in time (S3) and what the protected resource refuses (S4); a store that is
// restored; vouching; the lapse of a pod and its node under renewedBy Kubelet, so
// that Kubelet is searched under Forbid only, where there is none; and whether
// anything ever happens (the rest of L1).
//
// # Rules
//
// A model that finds nothing has proven little unless it would find something.
// So every rule (rules.go) is left out once, and the search must then find the
// invariant broken that the rule is for. It prints the shortest way there.
package model
