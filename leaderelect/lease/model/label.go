// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strings"
)

// kind is a kind of step.
type kind uint8

const (
	begins kind = iota
	sees
	grantsFree
	grantsLapsed
	grantsDead
	withdraws
	endsLapsed
	endsDead
	marks
	readsPod
	stamps
	confirmsFor
	records
	opens
	unfinalizes
	readsOwner
	creates
	recordsFloor
	writesFloor
	sends
	delivers
	losesRequest
	replies
	losesReply
	believes
	seesLoss
	stopsWork
	succeedsWork
	failsWork
	settles
	exits
	crashes
	restarts
	boots
	reports
	execs
	ticksOn
	wipes
	seizes
	deletes
	vanishes
	deletesPod
	freesPod
	edits
	kinds // How many there are.
)

// text says what happens in a step: %c is the controller, %p the controller's
// pod, %a the agent, %n the pod that a step is of, %r the request.
var text = [kinds]string{
	begins:       "begins",
	sees:         "%c sees the Lease",
	grantsFree:   "%c grants to %p",
	grantsLapsed: "%c grants to %p on a lapse",
	grantsDead:   "%c grants to %p on a proof of death",
	withdraws:    "%c withdraws",
	endsLapsed:   "%c ends the term on a lapse",
	endsDead:     "%c ends the term on a proof of death",
	marks:        "%c writes into %p that its term ends",
	readsPod:     "%c reads %p",
	stamps:       "%c stamps %p with the token",
	confirmsFor:  "%c confirms for %p",
	records:      "%c records the term in the owner's status",
	opens:        "%c looks at the owner and opens the Lease",
	unfinalizes:  "%c removes the finalizer",
	readsOwner:   "%c reads the owner's status",
	creates:      "%c creates the Lease",
	recordsFloor: "%c records the next token in the owner's status",
	writesFloor:  "%c writes the token floor into the Lease",
	sends:        "%a sends %r",
	delivers:     "the store gets %r of %a",
	losesRequest: "%r of %a is lost",
	replies:      "%a gets the reply to %r",
	losesReply:   "the reply to %r of %a is lost",
	believes:     "%a believes the grant that it sees",
	seesLoss:     "%a sees that its term is over and kills the work",
	stopsWork:    "%a stops the work",
	succeedsWork: "the work of %n succeeds",
	failsWork:    "the work of %n fails",
	settles:      "%a sees that there is nothing to release",
	exits:        "the agent of %n exits 0",
	crashes:      "the agent's container of %n crashes",
	restarts:     "the kubelet restarts the container of %n in place",
	boots:        "the kubelet starts %n",
	reports:      "the kubelet reports the status of %n",
	execs:        "a second agent is started in pod 1",
	ticksOn:      "a tick passes",
	wipes:        "a foreign elector wipes the Lease",
	seizes:       "a foreign elector seizes the Lease",
	deletes:      "somebody deletes the Lease",
	vanishes:     "the Lease vanishes in spite of its finalizer",
	deletesPod:   "somebody deletes %n",
	freesPod:     "%c lets go of %p, which is gone",
	edits:        "somebody changes the configured duration",
}

var requestText = [...]string{confirm: "Confirm", renew: "Renew", release: "Release", outlive: "Release of the earlier start"}

// ofController reports whether Who is a controller in steps of the kind.
func (k kind) ofController() bool { return strings.HasPrefix(text[k], "%c") }

// label names a step.
type label struct {
	Kind kind
	Who  int
	Pod  int
	What uint8
}

func (l label) pack() uint32 {
	return uint32(l.Kind) | uint32(l.Who)<<8 | uint32(l.Pod)<<16 | uint32(l.What)<<24
}

func unpack(n uint32) label {
	return label{Kind: kind(n), Who: int(n >> 8 & 0xff), Pod: int(n >> 16 & 0xff), What: uint8(n >> 24)}
}

func (l label) String() string {
	name := fmt.Sprintf("agent %d", l.Who+1)
	if l.Who == agents-1 {
		name = "the second agent in pod 1"
	}
	what := ""
	if int(l.What) < len(requestText) {
		what = requestText[l.What]
	}
	return strings.NewReplacer("%c", fmt.Sprintf("controller %d", l.Who+1), "%p", fmt.Sprintf("pod %d", l.Pod+1),
		"%a", name, "%n", fmt.Sprintf("pod %d", l.Who+1), "%r", what).Replace(text[l.Kind])
}
