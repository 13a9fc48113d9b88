// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/controllers/grant/plan"
)

// What this process believes of the past may be wrong: a pod in its cache may
// be gone, and the whole store may have been put back to an older copy. Neither
// can make a grant unsafe, but both can make it useless.

// decide plans, and looks at the chosen candidate once more, live: a pod that
// is gone or going would only hold the lease up for its take-up deadline.
func (r *Reconciler) decide(ctx context.Context, o *observation) (plan.Plan, error) {
	for {
		p := plan.Decide(o.Observed)
		pod := p.Grantee()
		if pod == nil {
			return p, nil
		}
		there, err := r.isThere(ctx, pod)
		if err != nil || there {
			return p, err
		}
		o.Pods = slices.DeleteFunc(slices.Clone(o.Pods), func(other *corev1.Pod) bool { return other.UID == pod.UID })
		if o.Holder != nil && o.Holder.UID == pod.UID {
			o.HolderReadLate = true // Its end is proven; it is only no candidate.
		}
	}
}

func (r *Reconciler) isThere(ctx context.Context, pod *corev1.Pod) (bool, error) {
	var live corev1.Pod
	err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(pod), &live)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read candidate %s: %w", pod.Name, err)
	}
	return live.UID == pod.UID && live.DeletionTimestamp == nil, nil
}

// liveVersions remembers the newest version that live reads and writes showed
// of each Lease.
type liveVersions struct {
	mu   sync.Mutex
	last map[types.NamespacedName]string
}

// note remembers a version, and reports whether it lies before the one
// remembered. Live reads never go backwards, unless the store did.
func (v *liveVersions) note(key types.NamespacedName, version string) (backwards bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.last == nil {
		v.last = map[types.NamespacedName]string{}
	}
	if c, err := resourceversion.CompareResourceVersion(version, v.last[key]); err == nil && c < 0 {
		return true
	}
	v.last[key] = version
	return false
}

func (v *liveVersions) forget(key types.NamespacedName) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.last, key)
}

// noteVersion tells Restored of a store that was put back. Watches that were
// opened before may stay silent for ever then, so caches must be built anew.
func (r *Reconciler) noteVersion(key types.NamespacedName, version string) {
	if r.versions.note(key, version) && r.Restored != nil {
		r.Restored(fmt.Errorf("lease %s is at resourceVersion %s, before one that was seen: the store was put back to an older copy", key, version))
	}
}
