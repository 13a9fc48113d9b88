// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster starts a real Kubernetes, built from Go modules, without an
// image registry, a container engine or a download site.
//
// There are two sizes. A control plane is etcd and an API server on loopback, for
// any user on any system; Assets serves the same programs to envtest. A cluster adds
// the controllers, the scheduler and nodes with kubelet, containerd and kube-proxy;
// it needs root on Linux.
//
// A cluster lives in namespaces of its own: one for the control plane, which also
// holds the bridge, and one for each node. None of them is joined to the host's
// network and none has a route out, so that no fault or load test and no service
// address that nobody has programmed yet sends a packet off the machine. The host
// reaches into it through forwarders on loopback (Forward, Dial), and the cluster
// reaches a server of the host where one is exposed to it (Expose).
//
// Nodes can be cut off, frozen, and lose their kubelet while containers run on:
// the faults that leases and fencing are about.
package cluster
