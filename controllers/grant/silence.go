// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"fmt"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// observeSilence measures, where the kubelet stands for the holder, how long
// the pod was not ready, or its node's lease unchanged: live reads of both,
// judged at the very versions whose age is known.
func (r *Reconciler) observeSilence(ctx context.Context, o *observation, record lease.Record) error {
	begun := r.Tracker.Now()
	pod, err := r.livePod(ctx, o)
	switch {
	case err != nil:
		return fmt.Errorf("read pod: %w", err)
	case pod == nil:
		// An object that is gone proves nothing, and nobody can say which node
		// to listen to: one duration from when it was first missed.
		r.hear(o, goneSubject(client.ObjectKeyFromObject(o.Lease)), record.GrantHolder, "1", begun)
		return nil
	}
	r.observePod(o, record, pod, begun)
	if pod.Spec.NodeName == "" {
		return nil
	}
	return r.observeNode(ctx, o, pod.Spec.NodeName)
}

// livePod reads the holder's pod; nil: it is gone.
func (r *Reconciler) livePod(ctx context.Context, o *observation) (*corev1.Pod, error) {
	if o.Holder == nil {
		return nil, nil
	}
	var pod corev1.Pod
	err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(o.Holder), &pod)
	if apierrors.IsNotFound(err) || (err == nil && pod.UID != o.Holder.UID) {
		return nil, nil
	}
	return &pod, err
}

// hear takes in a look at one that speaks for the holder.
func (r *Reconciler) hear(o *observation, subject, value, version string, begun time.Time) {
	o.Silence = max(o.Silence, r.Tracker.Observe(subject, value, version, begun))
	o.speakers = append(o.speakers, subject)
}

func (r *Reconciler) observePod(o *observation, record lease.Record, pod *corev1.Pod, begun time.Time) {
	value, wasReady := readiness(pod), podSubject(pod.UID, podWasReady)
	if value == string(corev1.ConditionTrue) || pod.Annotations[v1alpha1.AnnotationWasReady] == strconv.FormatInt(record.Token, 10) {
		r.Tracker.Observe(wasReady, "yes", "1", begun)
	}
	o.HolderWasReady = r.Tracker.Known(wasReady)
	if o.HolderWasReady && value != string(corev1.ConditionTrue) {
		r.hear(o, podSubject(pod.UID, podReady), value, pod.ResourceVersion, begun)
		return
	}
	r.Tracker.Observe(podSubject(pod.UID, podReady), value, pod.ResourceVersion, begun)
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		// It will not become ready any more: from now on that is silence too, or
		// a pod that ended during its start would hold the lease for ever.
		r.hear(o, podSubject(pod.UID, podEnding), "yes", "1", begun)
	}
}

func readiness(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return string(c.Status)
		}
	}
	return "absent"
}

func (r *Reconciler) observeNode(ctx context.Context, o *observation, name string) error {
	begun := r.Tracker.Now()
	var node coordinationv1.Lease
	err := r.Leases.Get(ctx, types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: name}, &node)
	switch {
	case apierrors.IsNotFound(err):
		r.hear(o, nodeSubject(name), "missing", "1", begun)
		return nil
	case err != nil:
		return fmt.Errorf("read node lease: %w", err)
	}
	r.hear(o, nodeSubject(name), lease.Fingerprint(&node), node.ResourceVersion, begun)
	return nil
}

func (r *Reconciler) observeLease(l *coordinationv1.Lease, begun time.Time) time.Duration {
	return r.Tracker.Observe(subjectOf(l), lease.Fingerprint(l), l.ResourceVersion, begun)
}

func (r *Reconciler) forgetLease(key types.NamespacedName) {
	r.Tracker.Forget(leaseSubject(key))
	r.Tracker.Forget(goneSubject(key))
	r.LeaseRefusals.Forget(key)
}

// What the tracker is asked about a pod.
const (
	podReady    = "ready"     // The Ready condition.
	podWasReady = "was-ready" // Known once the pod has been ready.
	podEnding   = "ending"    // Known once it was seen deleted or ended, under Kubelet.
	podForced   = "forced"    // Known once it was seen deleted without grace.
	podRefused  = "refused"   // Known once its eviction was refused.
)

func podSubject(uid types.UID, what string) string { return "pod/" + string(uid) + "/" + what }
func leaseSubject(key types.NamespacedName) string { return "lease/" + key.String() }
func goneSubject(key types.NamespacedName) string  { return "gone/" + key.String() }
func nodeSubject(name string) string               { return "node/" + name }

// subjectOf tells a node's own lease from one that is managed.
func subjectOf(l *coordinationv1.Lease) string {
	if l.Namespace == corev1.NamespaceNodeLease {
		return nodeSubject(l.Name)
	}
	return leaseSubject(client.ObjectKeyFromObject(l))
}
