// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"leasehold.dev/controllers/grant/plan"
)

// maxNote is the longest note that the events API takes, in bytes.
const maxNote = 1024

// tell records an event about what was just written, and counts it.
func (r *Reconciler) tell(l *coordinationv1.Lease, e plan.Event) {
	if e.Basis != "" {
		terms.WithLabelValues(e.Reason, e.Basis).Inc()
	}
	if e.Reason == "" {
		return
	}
	kind := corev1.EventTypeNormal
	if e.Warning {
		kind = corev1.EventTypeWarning
	}
	var related runtime.Object
	if e.Pod != nil {
		related = e.Pod
	}
	r.Recorder.Eventf(l, related, kind, e.Reason, e.Action, "%s", strings.ToValidUTF8(e.Note[:min(len(e.Note), maxNote)], ""))
}
