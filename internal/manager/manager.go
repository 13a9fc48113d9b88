// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manager runs Leasehold's controllers: flags to options, options to a
// running manager. The main program is a thin wrapper, so that tests can run
// the same manager with a transport that fails where they choose.
package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"leasehold.dev/controllers"
)

// Options are what the flags say.
type Options struct {
	AgentImage     string
	LeaderElect    bool
	LeaderElectNS  string
	MetricsAddress string
	ProbeAddress   string
	// Logger is where the manager logs.
	Logger logr.Logger
	// electionDuration is shorter in tests; zero: the default.
	electionDuration time.Duration
}

// Bind registers the flags.
func (o *Options) Bind(flags *flag.FlagSet) {
	flags.StringVar(&o.AgentImage, "agent-image", "leasehold.dev/agent:dev",
		"image with the agent, mounted into pods of SingletonJobs with renewedBy Agent")
	flags.BoolVar(&o.LeaderElect, "leader-elect", false,
		"let one of several replicas work at a time, to save work; safety does not depend on it")
	flags.StringVar(&o.LeaderElectNS, "leader-election-namespace", "",
		"namespace of the manager's own lease; the pod's namespace by default")
	flags.StringVar(&o.MetricsAddress, "metrics-bind-address", ":8443",
		"where to serve metrics, by HTTPS and only to those who may read them; 0 turns them off")
	flags.StringVar(&o.ProbeAddress, "health-probe-bind-address", ":8081",
		"where to serve /healthz and /readyz; 0 turns them off")
}

// Run runs the controllers until ctx ends.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	if o.AgentImage == "" {
		return fmt.Errorf("--agent-image is empty: name the image that holds the agent")
	}
	ctrl.SetLogger(o.Logger)
	mgr, err := newManager(config, o)
	if err != nil {
		return fmt.Errorf("manager: %w", err)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if err := controllers.Setup(ctx, mgr, controllers.Options{AgentImage: o.AgentImage, Restored: stop}); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return err
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return fmt.Errorf("stopped to build caches anew: %w", cause)
	}
	return nil
}

// newManager returns a manager without controllers. Where it is elected, that is
// by the protocol that it grants leases by.
func newManager(config *rest.Config, o Options) (ctrl.Manager, error) {
	times := electionOf(o.electionDuration)
	options := ctrl.Options{
		Scheme: controllers.Scheme(),
		Logger: o.Logger,
		Cache:  controllers.CacheOptions(),
		Metrics: server.Options{
			BindAddress:    o.MetricsAddress,
			SecureServing:  true,
			FilterProvider: filters.WithAuthenticationAndAuthorization,
			TLSOpts:        []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }},
		},
		WebhookServer:                 webhook.NewServer(webhook.Options{Port: -1}),
		HealthProbeBindAddress:        o.ProbeAddress,
		LeaderElection:                o.LeaderElect,
		LeaderElectionID:              leaseName,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &times.lease,
		RenewDeadline:                 &times.renewDeadline,
		RetryPeriod:                   &times.retryPeriod,
	}
	if !o.LeaderElect {
		return ctrl.NewManager(config, options)
	}
	recorder := &lateRecorder{}
	lock, err := newLock(config, o, recorder)
	if err != nil {
		return nil, err
	}
	options.LeaderElectionResourceLockInterface = lock
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, err
	}
	recorder.to = mgr.GetEventRecorder(leaseName)
	return mgr, nil
}
