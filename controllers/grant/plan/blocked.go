// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	"leasehold.dev/api/v1alpha1"
)

// disputed waits until a foreign holder has lapsed and a recorded term is over.
// Under Forbid the recorded holder's pod is removed once it has lapsed, since
// its kubelet's report is the proof that is awaited.
func (d decider) disputed() Plan {
	if a, over := d.over(); over {
		return d.admitted(d.end(a))
	}
	text := fmt.Sprintf("the lease says holder %q, which no grant of Leasehold wrote; it is granted again when it has been unchanged for %s%s. "+
		"Stop whatever else elects on this Lease", d.r.Holder, d.r.Longest, d.forbidClause())
	if !d.needsProof() {
		p := d.blocked(v1alpha1.BlockedForeignHolder, text)
		p.Lapse, p.RequeueAfter = d.lapseWait(), d.vouchWait()
		return p
	}
	p := d.blocked(v1alpha1.BlockedForeignHolder, text+". "+d.waysOut()+d.refusedRemoval())
	if d.lapsed() {
		p.Actions = append(p.Actions, d.evict("its lease was overwritten and has lapsed").Actions...)
	}
	p.Lapse, p.RequeueAfter = d.lapseWait(), d.vouchWait()
	return p
}

// needsProof reports whether a lapse does not end the recorded term.
func (d decider) needsProof() bool {
	return d.r.Open() && d.r.Config.OverlapPolicy == v1alpha1.OverlapForbid
}

func (d decider) forbidClause() string {
	if !d.needsProof() {
		return ""
	}
	return fmt.Sprintf(" and %s is proven to have ended", d.r.GrantHolder)
}

// unreachable is a lapse that does not end the term: under Forbid. The pod is
// removed, since its kubelet's report is the proof that is awaited.
func (d decider) unreachable() Plan {
	p := d.blocked(v1alpha1.BlockedHolderUnreachable, fmt.Sprintf(
		"%s has not renewed for %s, and overlapPolicy Forbid needs proof that it has ended. %s%s",
		d.r.GrantHolder, d.r.Longest, d.waysOut(), d.refusedRemoval()))
	p.Actions = append(p.Actions, d.evict("its lease has lapsed").Actions...)
	p.RequeueAfter = d.vouchWait()
	return p
}

// waysOut says what ends a term that needs a proof, and what people can do.
func (d decider) waysOut() string {
	byHand := fmt.Sprintf("end the term by hand, as a member of the group leasehold:break-glass: set leasehold.dev/released-token to %d, "+
		"leasehold.dev/outcome to %s, and clear spec.holderIdentity", d.r.Token, v1alpha1.OutcomeVouched)
	switch {
	case d.Holder == nil:
		return "Its pod object is gone, and with it what its kubelet could report. Way out: sure that its processes have ended, " + byHand
	case d.Holder.Spec.NodeName == "":
		return "Its pod is bound to no node. Way out: delete the pod"
	}
	ended := ""
	if hasEnded(d.Holder) {
		ended = "The pod has ended, for " + d.endText() + ", but no phase is proof. "
	}
	return ended + fmt.Sprintf("It waits for the report of the kubelet of node %s that all containers of pod %s have ended. "+
		"Ways out: delete the pod and bring the node back; or, sure that the machine is off, taint the node node.kubernetes.io/out-of-service; "+
		"or force-delete the pod, which counts after %s; or, sure that its processes have ended, %s",
		d.Holder.Spec.NodeName, d.Holder.Name, d.forceDeleteWait(), byHand)
}
