// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package components builds the programs of a Kubernetes cluster from Go modules.
//
// Each family of programs has a module of its own under test/cluster/components,
// because their dependency versions differ, and that module pins everything.
// What is built is kept in the user's cache directory under a name derived from the
// pinned versions and the way of building, so that every clone shares it and a
// change of either builds anew.
package components

import (
	"fmt"
	"sort"
	"strings"
)

// family is one module under test/cluster/components and how its programs are built.
type family struct {
	name   string
	module string // whose version names the family's version
	cgo    bool
	tags   string
	// ldflags tells programs their version, which they otherwise learn from their own release scripts.
	ldflags  func(version string) []string
	programs map[string]string // name of the program to its package
}

const kubernetesCmd = "k8s.io/kubernetes/cmd/"

func families() []family {
	return []family{
		{
			name: "kubernetes", module: "k8s.io/kubernetes", ldflags: kubernetesVersion,
			programs: map[string]string{
				"kube-apiserver":          kubernetesCmd + "kube-apiserver",
				"kube-controller-manager": kubernetesCmd + "kube-controller-manager",
				"kube-scheduler":          kubernetesCmd + "kube-scheduler",
				"kube-proxy":              kubernetesCmd + "kube-proxy",
				"kubelet":                 kubernetesCmd + "kubelet",
				"kubectl":                 kubernetesCmd + "kubectl",
			},
		},
		{
			name: "etcd", module: "go.etcd.io/etcd/server/v3",
			programs: map[string]string{"etcd": "go.etcd.io/etcd/server/v3"},
		},
		{
			name: "containerd", module: "github.com/containerd/containerd/v2",
			ldflags: oneVariable("github.com/containerd/containerd/v2/version.Version"),
			programs: map[string]string{
				"containerd":              "github.com/containerd/containerd/v2/cmd/containerd",
				"containerd-shim-runc-v2": "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
				"ctr":                     "github.com/containerd/containerd/v2/cmd/ctr",
			},
		},
		{
			// runc enters namespaces from C before Go's runtime has started threads, and
			// filters system calls by a C library, linked in so that no node need have it.
			name: "runc", module: "github.com/opencontainers/runc", cgo: true, tags: "seccomp osusergo netgo",
			ldflags:  func(string) []string { return []string{"-linkmode=external", "-extldflags=-static"} },
			programs: map[string]string{"runc": "github.com/opencontainers/runc"},
		},
		{
			name: "cni", module: "github.com/containernetworking/plugins",
			programs: map[string]string{
				"ptp":        "github.com/containernetworking/plugins/plugins/main/ptp",
				"loopback":   "github.com/containernetworking/plugins/plugins/main/loopback",
				"host-local": "github.com/containernetworking/plugins/plugins/ipam/host-local",
				"portmap":    "github.com/containernetworking/plugins/plugins/meta/portmap",
			},
		},
		{
			name: "helm", module: "helm.sh/helm/v4",
			ldflags:  oneVariable("helm.sh/helm/v4/internal/version.version"),
			programs: map[string]string{"helm": "helm.sh/helm/v4/cmd/helm"},
		},
	}
}

func oneVariable(name string) func(string) []string {
	return func(version string) []string { return []string{"-X " + name + "=" + version} }
}

// kubernetesVersion sets what the version of a node and of the API server is reported from.
func kubernetesVersion(version string) []string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 3 {
		return nil
	}
	values := [][2]string{{"gitVersion", version}, {"gitMajor", parts[0]}, {"gitMinor", parts[1]}, {"gitTreeState", "clean"}}
	var flags []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, v := range values {
			flags = append(flags, "-X "+pkg+"."+v[0]+"="+v[1])
		}
	}
	return flags
}

// Names lists every program that can be built.
func Names() []string {
	var names []string
	for _, f := range families() {
		for name := range f.programs {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}

// byFamily sorts the wanted programs into the families they are built with.
func byFamily(names []string) (map[string][]string, error) {
	wanted := map[string][]string{}
	for _, name := range names {
		f, err := familyOf(name)
		if err != nil {
			return nil, err
		}
		wanted[f.name] = append(wanted[f.name], name)
	}
	return wanted, nil
}

func familyOf(name string) (family, error) {
	for _, f := range families() {
		if _, ok := f.programs[name]; ok {
			return f, nil
		}
	}
	return family{}, fmt.Errorf("program %q is not known: choose one of %s", name, strings.Join(Names(), ", "))
}
