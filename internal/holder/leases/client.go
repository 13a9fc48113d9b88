// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leases reads, watches and updates one Lease.
//
// Its traffic shares nothing with other clients: no rate limiter, no retries
// behind the caller's back, and HTTP/1.1, where a request that times out takes
// its connection with it. On HTTP/2 every request goes to one connection, and
// when its peer is dead they all time out until the transport's own health
// check, much later than a lease, gives it up.
package leases

import (
	"context"
	"fmt"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// Client is for one Lease.
type Client struct {
	http      *http.Client
	rest      *rest.RESTClient
	codec     runtime.ParameterCodec
	namespace string
	name      string
}

const resource = "leases"

// New returns a client for the Lease namespace/name. It does not contact the
// API server.
func New(base *rest.Config, userAgent, namespace, name string) (*Client, error) {
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("coordination/v1: %w", err)
	}
	metav1.AddToGroupVersion(scheme, coordinationv1.SchemeGroupVersion)
	config := rest.CopyConfig(base)
	config.UserAgent = userAgent
	config.QPS = -1
	config.RateLimiter = nil
	config.Timeout = 0 // Each request has its own; a watch has none.
	config.NextProtos = []string{"http/1.1"}
	config.APIPath = "/apis"
	config.GroupVersion = &coordinationv1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.WarningHandler = rest.NoWarnings{}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	restClient, err := rest.RESTClientForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	return &Client{http: httpClient, rest: restClient, codec: runtime.NewParameterCodec(scheme),
		namespace: namespace, name: name}, nil
}

// Get reads the newest state of the Lease.
func (c *Client) Get(ctx context.Context, timeout time.Duration) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	l := &coordinationv1.Lease{}
	err := c.rest.Get().Namespace(c.namespace).Resource(resource).Name(c.name).MaxRetries(0).Do(ctx).Into(l)
	return l, c.forget(err)
}

// Update writes the Lease if its UID and resourceVersion still hold.
func (c *Client) Update(ctx context.Context, l *coordinationv1.Lease, timeout time.Duration) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if l.UID == "" || l.ResourceVersion == "" {
		return nil, fmt.Errorf("update of Lease %s/%s without a precondition", c.namespace, c.name)
	}
	out := &coordinationv1.Lease{}
	err := c.rest.Put().Namespace(c.namespace).Resource(resource).Name(c.name).Body(l).MaxRetries(0).Do(ctx).Into(out)
	return out, c.forget(err)
}

// Create makes the Lease where there is none.
func (c *Client) Create(ctx context.Context, l *coordinationv1.Lease, timeout time.Duration) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out := &coordinationv1.Lease{}
	err := c.rest.Post().Namespace(c.namespace).Resource(resource).Body(l).MaxRetries(0).Do(ctx).Into(out)
	return out, c.forget(err)
}

// forget drops idle connections after an error that is no answer of the API
// server: its peer may be dead, and the next request must not wait for it.
func (c *Client) forget(err error) error {
	if err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown {
		c.http.CloseIdleConnections()
	}
	return err
}

func (c *Client) options() metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", c.name).String()}
}

// list reads the newest state through a list, whose version a watch can start
// from; nil: there is no such Lease.
func (c *Client) list(ctx context.Context, timeout time.Duration) (*coordinationv1.Lease, string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	options := c.options()
	found := &coordinationv1.LeaseList{}
	err := c.rest.Get().Namespace(c.namespace).Resource(resource).VersionedParams(&options, c.codec).MaxRetries(0).Do(ctx).Into(found)
	switch {
	case err != nil:
		return nil, "", c.forget(err)
	case len(found.Items) == 0:
		return nil, found.ResourceVersion, nil
	}
	return &found.Items[0], found.ResourceVersion, nil
}

func (c *Client) watch(ctx context.Context, version string, lifetime time.Duration) (watch.Interface, error) {
	options := c.options()
	seconds := int64(lifetime / time.Second)
	options.ResourceVersion = version
	options.Watch = true
	options.AllowWatchBookmarks = true
	options.TimeoutSeconds = &seconds
	return c.rest.Get().Namespace(c.namespace).Resource(resource).VersionedParams(&options, c.codec).MaxRetries(0).Watch(ctx)
}
