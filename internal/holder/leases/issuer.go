// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// systemNamespace is as old as its cluster, and its UID stands for it.
const systemNamespace = "/api/v1/namespaces/" + metav1.NamespaceSystem

// Issuer reads who issues the tokens of the Lease: clusterUID/namespace/lease.
// It needs to get the namespace kube-system; an error that apierrors.IsForbidden
// matches says that it may not.
func (c *Client) Issuer(ctx context.Context, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ns := &metav1.PartialObjectMetadata{}
	err := c.rest.Get().AbsPath(systemNamespace).MaxRetries(0).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").Do(ctx).Into(ns)
	switch {
	case err != nil && apierrors.IsForbidden(err):
		return "", fmt.Errorf("the cluster's identity: %w; allow to get the namespace %s, or name the issuer", err, metav1.NamespaceSystem)
	case err != nil:
		return "", fmt.Errorf("the cluster's identity: %w", c.forget(err))
	case ns.UID == "":
		return "", fmt.Errorf("the cluster's identity: namespace %s has no UID", metav1.NamespaceSystem)
	}
	return fmt.Sprintf("%s/%s/%s", ns.UID, c.namespace, c.name), nil
}
