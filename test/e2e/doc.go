// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests Leasehold end to end on a real Kubernetes cluster with real
// faults: processes that are killed, containers that are frozen, nodes that are
// cut off. What ran, and when, is not taken from any status: probe workers record
// it in a PostgreSQL outside of the cluster (packages record and evidence).
//
//	go test -timeout 30m ./test/e2e/...
//
// It starts the cluster "e2e" with three nodes and needs root on Linux. The
// first node carries what is not to be disturbed; the others are for faults of
// whole nodes, and take only pods that ask for them. Cases run side by side,
// each in a namespace of its own; those that meddle with the manager follow one
// by one, and the chart comes last. E2E_KEEP=1 leaves the cluster, which the next
// run then uses as it is.
package e2e
