// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"fmt"
	"strings"

	"leasehold.dev/test/cluster/internal/dns"
	"leasehold.dev/test/cluster/internal/pki"
)

// pauseRef names the image that holds a pod's namespaces.
const pauseRef = "leasehold.dev/pause:1"

// nodeFiles are the paths that a node's configuration speaks of.
type nodeFiles struct {
	caFile      string
	serving     pki.Pair
	resolvConf  string
	kubeconfig  string
	runc        string
	plugins     string // directory of network plugins
	networks    string // directory of network configuration
	snapshotter string
}

// kubeletConfig leaves all at its defaults that tests of leases depend on, above all
// the heartbeat of nodes, and turns off what a machine within a machine cannot have.
func kubeletConfig(f nodeFiles) string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: %[1]q}
authorization: {mode: Webhook}
tlsCertFile: %[2]q
tlsPrivateKeyFile: %[3]q
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
# What a Service is called the cluster knows; what is outside nobody does.
clusterDomain: %[5]s
clusterDNS: [%[6]s]
resolvConf: %[4]q
# Control groups: flat ones, and of version 1 too, since not every machine has version 2.
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
localStorageCapacityIsolation: false
failSwapOn: false
featureGates: {KubeletInUserNamespace: true}
# A full disk of the host is no reason to evict a test's pods or to remove its images.
evictionHard: {memory.available: "0%%", nodefs.available: "0%%", nodefs.inodesFree: "0%%", imagefs.available: "0%%", imagefs.inodesFree: "0%%"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
readOnlyPort: 0
`, f.caFile, f.serving.Cert, f.serving.Key, f.resolvConf, dns.Domain, ServicesIP)
}

func containerdConfig(f nodeFiles) string {
	return fmt.Sprintf(`version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.erofs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.blockfile"]

[grpc]
  address = "/run/containerd/containerd.sock"

[plugins.'io.containerd.cri.v1.images']
  snapshotter = %[1]q
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = %[2]q

[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = [%[3]q]
    conf_dir = %[4]q
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        BinaryName = %[5]q
        SystemdCgroup = false
`, f.snapshotter, pauseRef, f.plugins, f.networks, f.runc)
}

// networkConfig gives each pod a cable of its own to its node, so that all its
// packets are routed and pass the rules of Services; on a bridge those between pods
// of one node may not.
func networkConfig(n node) (string, error) {
	config := map[string]any{
		"cniVersion": "1.0.0",
		"name":       "leasehold",
		"plugins": []any{
			map[string]any{
				"type": "ptp", "ipMasq": false,
				"ipam": map[string]any{
					"type": "host-local", "dataDir": "/run/pod-addresses",
					"ranges": [][]map[string]string{{{"subnet": n.PodCIDR}}},
					"routes": []map[string]string{{"dst": "0.0.0.0/0"}},
				},
			},
			map[string]any{"type": "portmap", "capabilities": map[string]bool{"portMappings": true}},
		},
	}
	data, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return "", fmt.Errorf("network of pods: %w", err)
	}
	return string(data) + "\n", nil
}

// proxyConfig leaves kernel limits alone, which are the host's too.
func proxyConfig(n node, kubeconfig string) string {
	return strings.TrimLeft(fmt.Sprintf(`
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clusterCIDR: %q
hostnameOverride: %q
clientConnection: {kubeconfig: %q}
conntrack: {maxPerCore: 0, min: 0}
`, podRange, n.Name, kubeconfig), "\n")
}
