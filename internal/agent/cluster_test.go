// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package agent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// controlPlane is one real etcd and API server for all tests of this package.
var controlPlane struct {
	once sync.Once
	env  *envtest.Environment
	cfg  *rest.Config
	err  error
}

func startControlPlane() {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		controlPlane.err = errors.New("KUBEBUILDER_ASSETS is not set: run `make test`, which builds an API server and sets it")
		return
	}
	controlPlane.env = &envtest.Environment{}
	controlPlane.cfg, controlPlane.err = controlPlane.env.Start()
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
	client    kubernetes.Interface
	namespace string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	controlPlane.once.Do(startControlPlane)
	if controlPlane.err != nil {
		t.Fatal(controlPlane.err)
	}
	client, err := kubernetes.NewForConfig(controlPlane.cfg)
	if err != nil {
		t.Fatal(err)
	}
	ns, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "agent-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{t: t, cfg: controlPlane.cfg, client: client, namespace: ns.Name}
}

// kubeconfig writes a kubeconfig for the API server, or for whoever stands
// before it at address.
func (c *cluster) kubeconfig(address string) string {
	c.t.Helper()
	user, err := controlPlane.env.AddUser(envtest.User{Name: "agent", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	kubeconfig, err := user.KubeConfig()
	if err != nil {
		c.t.Fatal(err)
	}
	text := string(kubeconfig)
	if address != "" {
		text = strings.ReplaceAll(text, strings.TrimPrefix(c.cfg.Host, "https://"), address)
	}
	path := filepath.Join(c.t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

func (c *cluster) create(config lease.Config) {
	c.t.Helper()
	l := lease.New(metav1.ObjectMeta{Namespace: c.namespace, Name: leaseName}, config, lease.Carry{})
	if _, err := c.client.CoordinationV1().Leases(c.namespace).Create(c.t.Context(), l, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.step(func(o lease.Observation) (*coordinationv1.Lease, error) { return o.SetClosed("") })
}

func (c *cluster) get() *coordinationv1.Lease {
	c.t.Helper()
	l, err := c.client.CoordinationV1().Leases(c.namespace).Get(c.t.Context(), leaseName, metav1.GetOptions{})
	if err != nil {
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
		l, err = c.client.CoordinationV1().Leases(c.namespace).Update(c.t.Context(), l, metav1.UpdateOptions{})
		if err == nil {
			return l
		}
		if classOf(err) != "Conflict" {
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
		return o.Grant(lease.Holder(pod, "uid-of-"+pod), "uid-of-"+pod, "issuer/of/this", basis, time.Now())
	})
	r, err := lease.Parse(l)
	if err != nil {
		c.t.Fatal(err)
	}
	return r.Token
}

func classOf(err error) string {
	var status interface{ Status() metav1.Status }
	if errors.As(err, &status) {
		return string(status.Status().Reason)
	}
	return fmt.Sprint(err)
}

func short() lease.Config {
	return lease.Config{Duration: 3 * time.Second, RenewInterval: time.Second, TakeUp: time.Minute, TokenFloor: lease.MaxToken,
		OverlapPolicy: v1alpha1.OverlapFence, RenewedBy: v1alpha1.RenewedByAgent}
}

var _ = context.Background
