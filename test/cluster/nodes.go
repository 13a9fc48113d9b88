// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"leasehold.dev/test/cluster/internal/kubeapi"
	"leasehold.dev/test/cluster/internal/pki"
	"leasehold.dev/test/cluster/internal/process"
)

// nodePrograms are built for clusters with nodes only.
var nodePrograms = []string{
	"kubelet", "kube-proxy", "containerd", "containerd-shim-runc-v2", "ctr", "runc", "ptp", "loopback", "host-local", "portmap",
}

// nodeRun is what starting the programs of one node needs.
type nodeRun struct {
	node
	programs map[string]string
	files    nodeFiles
	enter    []string
}

func (c *Cluster) prepareNode(ca *pki.Authority, n node, programs map[string]string) (*nodeRun, error) {
	enter, err := c.enter(n.Name)
	if err != nil {
		return nil, err
	}
	identity, err := ca.Issue(n.Name, pki.Leaf{
		CommonName: "system:node:" + n.Name, Organizations: []string{"system:nodes"}, Hosts: []string{n.Name, n.IP},
	})
	if err != nil {
		return nil, err
	}
	run := &nodeRun{node: n, programs: programs, enter: enter, files: nodeFiles{
		caFile:      ca.CAFile(),
		serving:     identity,
		resolvConf:  c.path(n.Name, "resolv.conf"),
		kubeconfig:  c.path(n.Name, "kubelet.kubeconfig"),
		runc:        programs["runc"],
		plugins:     filepath.Dir(programs["ptp"]),
		networks:    c.path(n.Name, "networks"),
		snapshotter: snapshotterFor(c.dir),
	}}
	server := fmt.Sprintf("https://%s:%d", APIServerIP, apiPort)
	if err := kubeapi.WriteKubeconfig(run.files.kubeconfig, c.cfg.Name, server, n.Name, ca.CAFile(), identity); err != nil {
		return nil, err
	}
	proxy, err := ca.Issue("kube-proxy", pki.Leaf{CommonName: "system:kube-proxy"})
	if err != nil {
		return nil, err
	}
	if err := kubeapi.WriteKubeconfig(c.path(n.Name, "kube-proxy.kubeconfig"), c.cfg.Name, server, "kube-proxy", ca.CAFile(), proxy); err != nil {
		return nil, err
	}
	return run, c.writeNodeFiles(run)
}

func (c *Cluster) writeNodeFiles(run *nodeRun) error {
	networks, err := networkConfig(run.node)
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		c.path(run.Name, "kubelet.yaml"):                        kubeletConfig(run.files),
		c.path(run.Name, "containerd.toml"):                     containerdConfig(run.files),
		c.path(run.Name, "kube-proxy.yaml"):                     proxyConfig(run.node, c.path(run.Name, "kube-proxy.kubeconfig")),
		filepath.Join(run.files.networks, "leasehold.conflist"): networks,
		run.files.resolvConf:                                    "",
	} {
		if err := c.writeFile(name, text); err != nil {
			return err
		}
	}
	return nil
}

// startRuntime starts containerd and gives it the image that every pod needs.
func (c *Cluster) startRuntime(ctx context.Context, run *nodeRun) error {
	name := run.Name + "/containerd"
	err := c.start(name, process.Spec{
		Path: run.programs["containerd"], Enter: run.enter,
		Args: []string{"--config", c.path(run.Name, "containerd.toml"), "--log-level", "info"},
		// Its plugins and shims look for iptables and for each other here.
		Env: []string{"PATH=" + filepath.Dir(run.programs["containerd"]) + ":" + os.Getenv("PATH")},
	})
	if err != nil {
		return err
	}
	err = c.await(ctx, name, "containerd of "+run.Name, 30*time.Second, func() error {
		_, err := c.run(ctx, run.Name, "", run.programs["ctr"], "plugins", "ls", "id==cri")
		return err
	})
	if err != nil {
		return err
	}
	return c.importImage(ctx, run.Name, run.programs["ctr"], c.path("images", "pause.tar"))
}

func (c *Cluster) startKubelet(run *nodeRun) error {
	return c.start(kubeletOf(run.Name), process.Spec{
		Path: run.programs["kubelet"], Enter: run.enter,
		Args: []string{
			"--config=" + c.path(run.Name, "kubelet.yaml"),
			"--kubeconfig=" + run.files.kubeconfig,
			"--hostname-override=" + run.Name,
			"--node-ip=" + run.IP,
			"--v=2",
		},
	})
}

func kubeletOf(node string) string { return node + "/kubelet" }

func (c *Cluster) startProxy(run *nodeRun) error {
	return c.start(run.Name+"/kube-proxy", process.Spec{
		Path: run.programs["kube-proxy"], Enter: run.enter,
		Args: []string{"--config=" + c.path(run.Name, "kube-proxy.yaml")},
	})
}

// awaitNode waits until pods can run on the node and reach Services.
func (c *Cluster) awaitNode(ctx context.Context, client *kubeapi.Client, n node) error {
	err := c.await(ctx, kubeletOf(n.Name), "node "+n.Name, 60*time.Second, func() error {
		return nodeReady(ctx, client, n.Name)
	})
	if err != nil {
		return err
	}
	return c.await(ctx, n.Name+"/kube-proxy", "Services on "+n.Name, 60*time.Second, func() error {
		rules, err := c.run(ctx, n.Name, "", "iptables-save", "-t", "nat")
		if err != nil {
			return err
		}
		return wantRule(rules, serviceAPI)
	})
}
