// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"leasehold.dev/test/cluster/internal/kubeapi"
	"leasehold.dev/test/cluster/internal/pki"
	"leasehold.dev/test/cluster/internal/process"
)

// Names by which Start and Stop know the programs of the control machine.
const (
	managerName   = "control/kube-controller-manager"
	schedulerName = "control/kube-scheduler"
	resolverName  = "control/resolver"
)

// startManagers starts the controllers and the scheduler at their defaults, but
// without an election, for which there is only one of each.
func (c *Cluster) startManagers(ca *pki.Authority, programs map[string]string) error {
	enter, err := c.enter(control)
	if err != nil {
		return err
	}
	tokens, err := ca.Key("service-accounts")
	if err != nil {
		return err
	}
	own := map[string][]string{
		managerName: {
			"--use-service-account-credentials",
			"--service-account-private-key-file=" + tokens,
			"--root-ca-file=" + ca.CAFile(),
			"--cluster-signing-cert-file=" + ca.CAFile(),
			"--cluster-signing-key-file=" + strings.TrimSuffix(ca.CAFile(), ".crt") + ".key",
		},
		schedulerName: nil,
	}
	for name, args := range own {
		program := strings.TrimPrefix(name, "control/")
		kubeconfig, err := c.componentKubeconfig(ca, program)
		if err != nil {
			return err
		}
		args = append(args,
			"--kubeconfig="+kubeconfig,
			"--authentication-kubeconfig="+kubeconfig,
			"--authorization-kubeconfig="+kubeconfig,
			"--bind-address=127.0.0.1",
			"--leader-elect=false",
		)
		if err := c.start(name, process.Spec{Path: programs[program], Args: args, Enter: enter}); err != nil {
			return err
		}
	}
	return nil
}

// startResolver lets pods find Services by name. It answers at ServicesIP, so that a
// node that is cut off from the API server keeps it.
func (c *Cluster) startResolver(ca *pki.Authority) error {
	enter, err := c.enter(control)
	if err != nil {
		return err
	}
	admin, err := ca.Issue("admin", adminLeaf)
	if err != nil {
		return err
	}
	return c.start(resolverName, process.Spec{Path: c.path("bin", "resolver"), Enter: enter, Args: []string{
		"-listen", net.JoinHostPort(ServicesIP, "53"),
		"-server", fmt.Sprintf("https://%s:%d", APIServerIP, apiPort),
		"-ca", ca.CAFile(), "-cert", admin.Cert, "-key", admin.Key,
	}})
}

func (c *Cluster) componentKubeconfig(ca *pki.Authority, program string) (string, error) {
	identity, err := ca.Issue(program, pki.Leaf{CommonName: "system:" + program})
	if err != nil {
		return "", err
	}
	file := c.path(control, program+".kubeconfig")
	server := fmt.Sprintf("https://%s:%d", APIServerIP, apiPort)
	return file, kubeapi.WriteKubeconfig(file, c.cfg.Name, server, program, ca.CAFile(), identity)
}

func wantRule(rules, address string) error {
	if strings.Contains(rules, address+"/32") {
		return nil
	}
	return errors.New("no rule for address " + address + " yet")
}
