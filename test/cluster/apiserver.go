// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"path/filepath"
	"strconv"

	"leasehold.dev/test/cluster/internal/pki"
	"leasehold.dev/test/cluster/internal/process"
)

const (
	clusterNetwork = "10.221.0.0/16"
	serviceRange   = "10.221.128.0/20"
	serviceAPI     = "10.221.128.1" // the Service default/kubernetes: first of the range

	// frontProxy may say for whom it asks: the API server towards extension servers.
	frontProxy = "front-proxy"
)

// The audit log keeps the bodies of what tests ask about, and one line of all else.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: Metadata
  userGroups: [system:nodes]
- level: RequestResponse
  verbs: [create, update, patch, delete, deletecollection]
  resources:
  - group: leasehold.dev
  - group: coordination.k8s.io
    resources: [leases]
  - group: ""
    resources: [pods, pods/binding, pods/eviction, pods/status]
- level: Metadata
`

func dirOf(name string) string { return filepath.Dir(name) }

// apiserverSpec runs the API server with its defaults for admission, priority and
// features, since that is what a user's cluster has.
func apiserverSpec(c *Cluster, ca *pki.Authority, plan controlPlane, program string) (process.Spec, error) {
	leaf := apiserverLeaf
	leaf.Hosts = append([]string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", serviceAPI}, plan.hosts...)
	pair, err := ca.Issue("apiserver", leaf)
	if err != nil {
		return process.Spec{}, err
	}
	tokens, err := ca.Key("service-accounts")
	if err != nil {
		return process.Spec{}, err
	}
	front, err := ca.Issue("front-proxy", pki.Leaf{CommonName: frontProxy})
	if err != nil {
		return process.Spec{}, err
	}
	policy := c.path("audit-policy.yaml")
	if err := c.writeFile(policy, auditPolicy); err != nil {
		return process.Spec{}, err
	}
	args := []string{
		"--bind-address=" + plan.bind,
		"--secure-port=" + strconv.Itoa(plan.apiPort),
		"--advertise-address=" + plan.advertise,
		"--tls-cert-file=" + pair.Cert,
		"--tls-private-key-file=" + pair.Key,
		"--client-ca-file=" + ca.CAFile(),
		fmt.Sprintf("--etcd-servers=https://127.0.0.1:%d", plan.etcdPort),
		"--etcd-cafile=" + ca.CAFile(),
		"--etcd-certfile=" + pair.Cert,
		"--etcd-keyfile=" + pair.Key,
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--service-cluster-ip-range=" + serviceRange,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + tokens,
		"--service-account-signing-key-file=" + tokens,
		"--kubelet-certificate-authority=" + ca.CAFile(),
		"--kubelet-client-certificate=" + pair.Cert,
		"--kubelet-client-key=" + pair.Key,
		"--kubelet-preferred-address-types=InternalIP",
		"--requestheader-client-ca-file=" + ca.CAFile(),
		"--requestheader-allowed-names=" + frontProxy,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + front.Cert,
		"--proxy-client-key-file=" + front.Key,
		"--audit-policy-file=" + policy,
		"--audit-log-path=" + c.AuditLog(),
		"--audit-log-maxsize=200",
		"--audit-log-maxbackup=2",
		"--allow-privileged",
		"--profiling=false",
	}
	if plan.loopbackOnly {
		// A loopback address may not stand in Endpoints.
		args = append(args, "--endpoint-reconciler-type=none")
	} else {
		// The control plane has no kube-proxy: it reaches webhooks at their pods.
		args = append(args, "--enable-aggregator-routing")
	}
	return process.Spec{Path: program, Args: args, Enter: plan.enter}, nil
}
