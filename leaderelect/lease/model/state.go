// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package model

// num is a point in the store's order of writes: a resourceVersion, a UID (the
// version that created the object), a token, the write that last moved
// renewTime. Zero is absent. Only order and equality of numbers below raised
// matter to the protocol, so that canonical renumbers them densely; numbers
// from raised on are tokens far above the store's version (minToken).
type num = uint8

const (
	raised num = 100
	// fresh stands in an unsent write for the version that it will get.
	fresh num = 255
)

// who names a holder.
type who = uint8

const (
	nobody who = iota
	podOne
	podTwo
	stranger
)

// nonce names a start: 1 + 4*agent + run of the container.
type nonce = uint8

const (
	noNonce nonce = 0
	unknown nonce = 60
	// past is the nonce of a process that is gone and whose term is over.
	past nonce = 59
	// ofPod is added to a pod for renewedBy Kubelet, where the pod's UID is
	// the nonce.
	ofPod nonce = 60
)

func nonceOf(agent int, run uint8) nonce { return nonce(1 + 4*agent + int(run)) }

// Reasons for which a Lease is closed.
const (
	notClosed uint8 = iota
	closedNew
	closedCompleted
)

// view is a Lease, in the store or as somebody has read it. Zero UID: absent.
type view struct {
	UID, RV, Stamp, Token, Released num
	Holder, Grantee                 who
	Started                         nonce
	// Durations in ticks; 0: absent, second: one second.
	Duration, Longest, Configured uint8
	Closed                        uint8
	Floor                         num
	Deleting, Finalizer           bool
	// SameTerm: the grant's term number equals spec.leaseTransitions.
	SameTerm bool
}

const second uint8 = 1

// present reports whether there is a Lease.
func (v *view) present() bool { return v.UID != 0 }

// observer is one controller instance.
type observer struct {
	View view
	// Age is the time, in ticks, that the fields of the term were seen unchanged.
	Age uint8
	// Pod is what it has read of a pod, in order to stamp it.
	Pod podRead
	// Owner is what it has read of the Lease's owner, in order to create.
	Owner owner
}

// podRead is a reading of a pod that has not been written since; a later write
// of the pod voids it, since every patch carries the version that was read.
type podRead struct {
	Pod who
	// Justified: the Lease was read after the pod.
	Justified bool
	// Over: that Lease had no open term of the pod.
	Over bool
}

// Phases of an agent.
const (
	down    uint8 = iota
	idle          // Waits to be granted.
	working       // Confirmed; its work runs.
	over          // The work has ended; the term is to be released.
)

// Outcomes of work.
const (
	stopped uint8 = iota
	failed
	succeeded
)

// Stages and kinds of an agent's request.
const (
	noRequest uint8 = iota
	sent
	applied // The store has done it; the reply is under way.
)

const (
	confirm uint8 = iota + 1
	renew
	release
	outlive
)

// agent is one agent process.
type agent struct {
	Phase, Outcome uint8
	Token          num
	Nonce          nonce
	// Trust is for how many more ticks the agent may trust its term.
	Trust uint8
	// Request: its stage and kind, what it writes under the UID and version in
	// it, and the trust that its reply will give, counted from its start.
	Stage, Kind uint8
	Gain        uint8
	Write       view
}

// Container states.
const (
	waiting uint8 = iota
	running
	terminated
)

// report is a container as a kubelet sees it, and reports it.
type report struct {
	State    uint8
	Exit     uint8
	Message  nonce // Nonce in the termination message.
	Before   bool  // There was an earlier run, and it ended so:
	LastExit uint8
	LastMsg  nonce
}

// pod is a candidate: its object in the store, and its container.
type pod struct {
	Token, Ended    num
	Gated, Deleting bool
	Gone            bool   // The object is no more.
	Report          report // As the store has it.
	Now             report // As it is.
	Run             uint8  // The container's run.
	File            nonce  // The termination message file.
	// Work is the token of work that outlives the agent (Sidecar), or that no
	// agent started (Kubelet).
	Work num
}

// owner is the status of the Lease's owner.
type owner struct {
	Read     bool // In an observer: the owner was read.
	Token    num
	Holder   who // Of an unfinished term.
	Complete bool
	Floor    num
}

const (
	observers = 2
	pods      = 2
	agents    = 3 // One in each pod; the last is a second one in the first pod.
)

// budget bounds what the environment does.
type budget struct {
	Foreign, Deletions, PodDeletions, Crashes, Execs, Edits, Grants uint8
}

// state is a state of the whole system. It has no pointers, so that equal
// states are equal values.
type state struct {
	// Sets of tokens, by number.
	WorkStarted    uint64
	EndedByManager uint64

	Lease    view
	Observer [observers]observer
	Agent    [agents]agent
	Pod      [pods]pod
	Owner    owner
	// Newest is the greatest token ever granted.
	Newest num
	// Succeeded: the success of the work was recorded where all can see it.
	Succeeded bool
	Left      budget
	// Broken is the invariant that the last step broke.
	Broken invariant
}

// podOf is the pod that an agent runs in.
func podOf(a int) int {
	if a == agents-1 {
		return 0
	}
	return a
}

func whoIs(p int) who { return who(p + 1) }

func (v *view) open() bool { return v.Token > v.Released }

func (v *view) free() bool { return !v.open() && v.Holder == nobody }

// granted reports whether the phase is Granted; live, whether it is Live.
func (v *view) granted() bool { return v.counts() && v.Started == noNonce }
func (v *view) live() bool    { return v.counts() && v.Started != noNonce }

func (v *view) counts() bool { return v.open() && v.Holder == v.Grantee && v.SameTerm }

// current reports whether what a controller has seen is the Lease as it is.
func (s *state) current(i int) bool {
	v := &s.Observer[i].View
	return v.present() && v.UID == s.Lease.UID && v.RV == s.Lease.RV
}
