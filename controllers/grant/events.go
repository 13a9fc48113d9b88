// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"leasehold.dev/controllers/grant/plan"
	"leasehold.dev/internal/text"
)

// tell records an event about what was just written, and counts it.
func (r *Reconciler) tell(l *coordinationv1.Lease, e plan.Event) {
	if e.Basis != "" {
		terms.WithLabelValues(e.Reason, e.Basis).Inc()
	}
	if e.Reason == "" {
		return
	}
	note := text.Cut(e.Note, text.MaxNote)
	kind := corev1.EventTypeNormal
	if e.Warning {
		kind = corev1.EventTypeWarning
	}
	var related runtime.Object
	if e.Pod != nil {
		related = e.Pod
	}
	if l == nil { // What a pod waits for that asks for no Lease there is.
		r.Recorder.Eventf(e.Pod, nil, kind, e.Reason, e.Action, "%s", note)
		return
	}
	r.Recorder.Eventf(l, related, kind, e.Reason, e.Action, "%s", note)
}
