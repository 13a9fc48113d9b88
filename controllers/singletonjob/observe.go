// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package singletonjob

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/controllers/singletonjob/plan"
)

// observe looks at a job and all that belongs to it; nil: there is no such job.
// The Lease comes last, and live: what a pod says of its token is then never
// news to it.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (*plan.Observed, error) {
	job := &v1alpha1.SingletonJob{}
	if err := r.Client.Get(ctx, key, job); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	o := &plan.Observed{Now: r.Clock.Now(), Job: job}
	var err error
	if o.Revision, err = revision(job); err != nil {
		return nil, err
	}
	if o.Pods, err = podsOf(ctx, r.Client, job); err != nil {
		return nil, err
	}
	if err := r.observeMissing(ctx, o); err != nil {
		return nil, err
	}
	if o.Access, err = r.observeAccess(ctx, job, o.Pods); err != nil {
		return nil, err
	}
	if o.Lease, err = r.readLease(ctx, job); err != nil {
		return nil, err
	}
	o.Refused = cmp.Or(r.refusals.Of(key), r.LeaseRefusals.Of(client.ObjectKey{Namespace: key.Namespace, Name: plan.LeaseName(job)}))
	return o, nil
}

// podsOf lists the pods that the job controls.
func podsOf(ctx context.Context, reader client.Reader, job *v1alpha1.SingletonJob) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := reader.List(ctx, &list, client.InNamespace(job.Namespace), client.MatchingLabels{v1alpha1.LabelJob: job.Name}); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	var pods []*corev1.Pod
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], job) {
			pods = append(pods, &list.Items[i])
		}
	}
	return pods, nil
}

// observeMissing looks live for the pods of active ordinals that the cache does
// not have: they were never made, or the cache lags, or the name is taken.
func (r *Reconciler) observeMissing(ctx context.Context, o *plan.Observed) error {
	for _, ordinal := range o.Job.Status.ActiveOrdinals {
		name := plan.PodName(o.Job, ordinal)
		if slices.ContainsFunc(o.Pods, func(p *corev1.Pod) bool { return p.Name == name }) {
			continue
		}
		pod := &corev1.Pod{}
		switch err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: o.Job.Namespace, Name: name}, pod); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return fmt.Errorf("read pod %s: %w", name, err)
		case metav1.IsControlledBy(pod, o.Job):
			o.Pods = append(o.Pods, pod)
		default:
			o.Strangers = append(o.Strangers, name)
		}
	}
	return nil
}

func (r *Reconciler) readLease(ctx context.Context, job *v1alpha1.SingletonJob) (*coordinationv1.Lease, error) {
	l := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: job.Namespace, Name: plan.LeaseName(job)}
	switch err := r.APIReader.Get(ctx, key, l); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read lease: %w", err)
	}
	return l, nil
}
