// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what a SingletonJob needs, from what was seen. It is
// pure: values in, a Plan out; no client, no clock, no logging.
//
// A plan is a status and actions. The status is written first, under the
// resourceVersion of the job that was seen, and the actions are right only once
// it is: whoever loses that write does nothing. So whatever must be on record
// before an action is simply part of the status:
//
//   - an ordinal, before a pod of that name is created;
//   - the outcome of a term, before its pod's or its Lease's finalizer goes;
//   - the token floor, before the Lease permits tokens up to it;
//   - Complete or Failed, before anything is cleaned up.
//
// A crash between two writes leaves a state from which the next look plans the
// rest: nothing is decided from memory, nor from our own earlier conditions,
// except that Complete and Failed are final.
//
// What the plan knows about terms it reads from the Lease, which was read live
// after the pods. A pod's work is over for the plan when the Lease shows its
// term to have ended; whether it may be shown so is the grant controller's
// business, not ours.
package plan
