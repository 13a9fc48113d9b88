// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package agent_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// controlPlane is one real etcd and API server for all tests of this package.
var controlPlane struct {
	once       sync.Once
	env        *envtest.Environment
	cfg        *rest.Config
	kubeconfig []byte
	err        error
}

func startControlPlane() {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		controlPlane.err = errors.New("KUBEBUILDER_ASSETS is not set: run `make test`, which builds an API server and sets it")
		return
	}
	log.SetLogger(logr.Discard())
	controlPlane.env = &envtest.Environment{}
	if controlPlane.cfg, controlPlane.err = controlPlane.env.Start(); controlPlane.err != nil {
		return
	}
	user, err := controlPlane.env.AddUser(envtest.User{Name: "agent", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		controlPlane.err = err
		return
	}
	controlPlane.kubeconfig, controlPlane.err = user.KubeConfig()
}

func stopControlPlane() {
	if controlPlane.cfg != nil {
		_ = controlPlane.env.Stop()
	}
}

// cluster is a namespace on the real API server, in which the test plays the
// manager.
type cluster struct {
	t         *testing.T
	cfg       *rest.Config
	client    client.Client
	namespace string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	controlPlane.once.Do(startControlPlane)
	if controlPlane.err != nil {
		t.Fatal(controlPlane.err)
	}
	direct, err := client.New(controlPlane.cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "agent-"}}
	if err := direct.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	return &cluster{t: t, cfg: controlPlane.cfg, client: direct, namespace: ns.Name}
}

// kubeconfig writes a kubeconfig for the API server, or for whoever stands
// before it at address.
func (c *cluster) kubeconfig(address string) string {
	c.t.Helper()
	parsed, err := clientcmd.Load(controlPlane.kubeconfig)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, to := range parsed.Clusters {
		if address != "" {
			to.Server = "https://" + address
		}
	}
	path := filepath.Join(c.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*parsed, path); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// address is host and port of the API server.
func (c *cluster) address() string {
	return strings.Trim(strings.TrimPrefix(c.cfg.Host, "https:"), "/")
}

func (c *cluster) create(config lease.Config) {
	c.t.Helper()
	l := lease.New(metav1.ObjectMeta{Namespace: c.namespace, Name: leaseName}, config, lease.Carry{})
	if err := c.client.Create(c.t.Context(), l); err != nil {
		c.t.Fatal(err)
	}
	c.step(func(o lease.Observation) (*coordinationv1.Lease, error) { return o.SetClosed("") })
}

func (c *cluster) get() *coordinationv1.Lease {
	c.t.Helper()
	l := &coordinationv1.Lease{}
	if err := c.client.Get(c.t.Context(), client.ObjectKey{Namespace: c.namespace, Name: leaseName}, l); err != nil {
		c.t.Fatal(err)
	}
	return l
}

func (c *cluster) record() lease.Record {
	c.t.Helper()
	r, err := lease.Parse(c.get())
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// step reads the Lease, and writes what f makes of it, until that succeeds.
func (c *cluster) step(f func(lease.Observation) (*coordinationv1.Lease, error)) *coordinationv1.Lease {
	c.t.Helper()
	for {
		l, err := f(lease.Observation{Lease: c.get()})
		if err != nil {
			c.t.Fatal(err)
		}
		err = c.client.Update(c.t.Context(), l)
		if err == nil {
			return l
		}
		if !apierrors.IsConflict(err) {
			c.t.Fatal(err)
		}
	}
}

func (c *cluster) grant(pod string) int64 {
	c.t.Helper()
	return c.grantOn(pod, lease.Basis{Kind: lease.ByRelease})
}

func (c *cluster) grantOn(pod string, basis lease.Basis) int64 {
	c.t.Helper()
	l := c.step(func(o lease.Observation) (*coordinationv1.Lease, error) {
		return o.Grant(lease.Holder(pod, "uid-of-"+pod), "issuer/of/this", basis, time.Now())
	})
	r, err := lease.Parse(l)
	if err != nil {
		c.t.Fatal(err)
	}
	return r.Token
}

// normal is a lease that a loaded machine does not lose; short is one whose end
// a test can wait for.
func normal() lease.Config {
	return lease.Config{Duration: 15 * time.Second, RenewInterval: time.Second, TakeUp: time.Minute, TokenFloor: lease.MaxToken,
		OverlapPolicy: v1alpha1.OverlapFence, RenewedBy: v1alpha1.RenewedByAgent}
}

func short() lease.Config {
	c := normal()
	c.Duration = 3 * time.Second
	return c
}

// held makes a Lease that is granted to pod a, and an agent of that pod.
func (c *cluster) held(config lease.Config, work ...string) (int64, *proc) {
	c.t.Helper()
	c.create(config)
	token := c.grant("a")
	return token, startAgent(c.t, c.options("a"), work...)
}

func (c *cluster) options(pod string) agentOptions {
	c.t.Helper()
	return agentOptions{kubeconfig: c.kubeconfig(""), namespace: c.namespace, pod: pod, message: messageFile(c.t)}
}

// wantReleased checks how the Lease says that the term ended.
func (c *cluster) wantReleased(token int64, outcome v1alpha1.Outcome) {
	c.t.Helper()
	if r := c.record(); r.Released != token || r.Outcome != outcome {
		c.t.Errorf("released %d as %q, want %d as %q", r.Released, r.Outcome, token, outcome)
	}
}

// wantExit waits for the agent to end with the status.
func (p *proc) wantExit(code int) {
	p.t.Helper()
	if got := p.exit(); got != code {
		p.t.Errorf("exit status %d, want %d; lines: %q", got, code, p.seen)
	}
}

func keyOf(l *coordinationv1.Lease) client.ObjectKey { return client.ObjectKeyFromObject(l) }
