// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"leasehold.dev/test/cluster/internal/kubeapi"
	"leasehold.dev/test/cluster/internal/pki"
	"leasehold.dev/test/cluster/internal/process"
)

// Names of processes in the state; those of nodes are <node>/<program>.
const (
	etcdName      = "control/etcd"
	apiserverName = "control/kube-apiserver"
)

var (
	adminLeaf     = pki.Leaf{CommonName: "leasehold-admin", Organizations: []string{"system:masters"}}
	apiserverLeaf = pki.Leaf{CommonName: "kube-apiserver", Organizations: []string{"system:masters"}}
)

// UpControlPlane starts etcd and an API server on loopback, for any user on any system.
// Where they run already it only makes sure that they answer.
func UpControlPlane(ctx context.Context, cfg Config) (*Cluster, error) {
	c, err := load(kindControlPlane, cfg)
	if err != nil {
		return nil, err
	}
	unlock, err := c.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if running, err := c.reuse(ctx); err != nil || running {
		return c, err
	}
	programs, err := c.build(ctx, "etcd", "kube-apiserver", "kubectl")
	if err != nil {
		return nil, err
	}
	started := time.Now()
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	plan := controlPlane{
		bind: "127.0.0.1", advertise: "127.0.0.1", hosts: []string{"127.0.0.1", "localhost"},
		etcdPort: ports[0], peerPort: ports[1], apiPort: ports[2],
		loopbackOnly: true,
	}
	if err := c.startControlPlane(ctx, plan, programs, nil); err != nil {
		return nil, err
	}
	c.stage(started, "control plane is up")
	return c, c.change(func(s *state) { s.Ready = true })
}

// OpenControlPlane finds a control plane that was started before.
func OpenControlPlane(cfg Config) (*Cluster, error) { return open(kindControlPlane, cfg) }

func open(kind string, cfg Config) (*Cluster, error) {
	c, err := load(kind, cfg)
	if err != nil {
		return nil, err
	}
	if !c.view().exists() {
		return nil, fmt.Errorf("%s %s: %w", kind, c.cfg.Name, ErrNotRunning)
	}
	return c, nil
}

// reuse tells whether the cluster runs already. What is left of one that ended, as by
// a restart of the machine, is removed; one that runs in part is an error, since
// starting it anew would take away what somebody may be looking at.
func (c *Cluster) reuse(ctx context.Context) (bool, error) {
	if !c.view().exists() {
		return false, nil
	}
	dead := c.view().dead()
	if len(dead) == len(c.view().Processes) {
		c.logf("%s %s has ended: removing what is left of it", c.view().Kind, c.cfg.Name)
		return false, c.down(ctx)
	}
	if !c.view().Ready {
		return false, fmt.Errorf("%s %s was only half made: see its logs in %s, then run down", c.view().Kind, c.cfg.Name, c.path("logs"))
	}
	if len(dead) > 0 {
		return false, fmt.Errorf("%s %s runs only in part (not running: %v): start what is stopped, or run down first", c.view().Kind, c.cfg.Name, dead)
	}
	if err := c.Healthy(ctx); err != nil {
		return false, fmt.Errorf("%s %s runs but is not healthy: heal it, or run down first: %w", c.view().Kind, c.cfg.Name, err)
	}
	return true, nil
}

// controlPlane is where etcd and the API server listen and how they are known.
type controlPlane struct {
	bind, advertise             string
	hosts                       []string // names in the API server's certificate
	etcdPort, peerPort, apiPort int
	// loopbackOnly: nobody reaches the API server through a Service.
	loopbackOnly bool
	enter        []string
}

// startControlPlane starts etcd and the API server side by side and waits for the
// latter. The function started, if any, runs once the API server has been started.
func (c *Cluster) startControlPlane(ctx context.Context, plan controlPlane, programs map[string]string, started func() error) error {
	ca, err := c.authority()
	if err != nil {
		return err
	}
	etcd, err := etcdSpec(c, ca, plan, programs["etcd"])
	if err != nil {
		return err
	}
	if err := c.start(etcdName, etcd); err != nil {
		return err
	}
	apiserver, err := apiserverSpec(c, ca, plan, programs["kube-apiserver"])
	if err != nil {
		return err
	}
	if err := c.start(apiserverName, apiserver); err != nil {
		return err
	}
	if c.view().Server == "" {
		server := "https://" + net.JoinHostPort(plan.bind, strconv.Itoa(plan.apiPort))
		if err := c.change(func(s *state) { s.Server = server }); err != nil {
			return err
		}
	}
	if started != nil {
		if err := started(); err != nil {
			return err
		}
	}
	return c.finishControlPlane(ctx, ca)
}

func (c *Cluster) finishControlPlane(ctx context.Context, ca *pki.Authority) error {
	admin, err := ca.Issue("admin", adminLeaf)
	if err != nil {
		return err
	}
	context := "leasehold-" + c.cfg.Name
	if err := kubeapi.WriteKubeconfig(c.Kubeconfig(), context, c.view().Server, "admin", ca.CAFile(), admin); err != nil {
		return err
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	return c.await(ctx, apiserverName, "the API server", 90*time.Second, func() error {
		if err := c.process(etcdName).Check(); err != nil {
			return err
		}
		return client.Get(ctx, "/readyz", nil)
	})
}

func etcdSpec(c *Cluster, ca *pki.Authority, plan controlPlane, program string) (process.Spec, error) {
	pair, err := ca.Issue("etcd", pki.Leaf{CommonName: "etcd", Hosts: []string{"127.0.0.1", "localhost"}})
	if err != nil {
		return process.Spec{}, err
	}
	client := fmt.Sprintf("https://127.0.0.1:%d", plan.etcdPort)
	peer := fmt.Sprintf("http://127.0.0.1:%d", plan.peerPort)
	return process.Spec{Path: program, Enter: plan.enter, Args: []string{
		"--name=control",
		"--data-dir=" + c.path("etcd"),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=control=" + peer,
		"--cert-file=" + pair.Cert,
		"--key-file=" + pair.Key,
		"--client-cert-auth",
		"--trusted-ca-file=" + ca.CAFile(),
		// The data is thrown away with the cluster: durability would only cost time.
		"--unsafe-no-fsync",
		"--log-level=warn",
	}}, nil
}

// freePorts asks the system for ports that nobody listens at.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("free port on loopback: %w", err)
		}
		defer func() { _ = listener.Close() }()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// writeFile writes a rendered file of the cluster, with its directory.
func (c *Cluster) writeFile(name, text string) error {
	if err := os.MkdirAll(dirOf(name), 0o755); err != nil {
		return fmt.Errorf("directory of %s: %w", name, err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	return nil
}
