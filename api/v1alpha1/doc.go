// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the Leasehold API: the SingletonJob kind, and every
// label, annotation, gate, finalizer and environment variable by which the
// parts of Leasehold speak to each other (labels.go).
//
// The package imports apimachinery and core API types only, so that the agent
// and the libraries can use its names without a client.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +kubebuilder:ac:output:package=applyconfiguration
// +groupName=leasehold.dev
package v1alpha1
