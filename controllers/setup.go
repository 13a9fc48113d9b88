// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/controllers/grant"
	"leasehold.dev/controllers/singletonjob"
	"leasehold.dev/internal/lapse"
	"leasehold.dev/internal/refusal"
)

// Options configure the controllers.
type Options struct {
	// AgentImage is the image with the agent, mounted into pods.
	AgentImage string
	// Restored is told when the store was put back to an older copy, after which
	// caches must be built anew. May be nil.
	Restored func(error)
	// Clock drives deadlines and times; the real one by default.
	Clock clock.WithTicker
}

// Scheme knows every kind that the controllers touch.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}

// CacheOptions keep in memory what the controllers watch and no more: candidate
// pods, managed Leases, and the nodes' own leases.
func CacheOptions() cache.Options {
	candidates := labels.NewSelector()
	if asks, err := labels.NewRequirement(v1alpha1.LabelLease, selection.Exists, nil); err == nil {
		candidates = candidates.Add(*asks)
	}
	return cache.Options{ByObject: map[client.Object]cache.ByObject{
		&corev1.Pod{}: {Label: candidates},
		&coordinationv1.Lease{}: {Namespaces: map[string]cache.Config{
			metav1.NamespaceAll:       {LabelSelector: labels.SelectorFromSet(labels.Set{v1alpha1.LabelManaged: "true"}), FieldSelector: fields.Everything()},
			corev1.NamespaceNodeLease: {},
		}},
	}}
}

// Setup registers every controller with mgr.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	var system corev1.Namespace
	if err := mgr.GetAPIReader().Get(ctx, types.NamespacedName{Name: metav1.NamespaceSystem}, &system); err != nil {
		return fmt.Errorf("read the cluster's identity, the UID of namespace %s: %w", metav1.NamespaceSystem, err)
	}
	leases, err := leaseClient(mgr)
	if err != nil {
		return err
	}
	refusals := refusal.NewBoard()
	g := &grant.Reconciler{
		Client: mgr.GetClient(), Leases: leases, APIReader: mgr.GetAPIReader(),
		Tracker: lapse.NewTracker(o.Clock), Clock: o.Clock,
		Recorder: mgr.GetEventRecorder("leasehold-grant"), ClusterUID: string(system.UID),
		Restored: o.Restored, LeaseRefusals: refusals,
	}
	if err := g.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("grant controller: %w", err)
	}
	s := &singletonjob.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: o.Clock,
		Recorder:   mgr.GetEventRecorder("leasehold-singletonjob"),
		AgentImage: o.AgentImage, ClusterUID: string(system.UID),
		LeaseRefusals: refusals,
	}
	if err := s.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("singletonjob controller: %w", err)
	}
	return nil
}

const leaseRequestTimeout = 5 * time.Second

// leaseClient is a live client of its own for Leases: nothing else that the
// manager does may delay a grant by a shared rate limiter, and a hung request
// may not hold one up for long.
func leaseClient(mgr ctrl.Manager) (client.Client, error) {
	config := rest.CopyConfig(mgr.GetConfig())
	config.RateLimiter = nil
	config.QPS = -1
	config.Timeout = leaseRequestTimeout
	c, err := client.New(config, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("lease client: %w", err)
	}
	return c, nil
}
