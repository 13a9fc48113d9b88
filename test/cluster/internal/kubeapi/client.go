// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeapi is the little of a Kubernetes client that starting a cluster needs.
package kubeapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"leasehold.dev/test/cluster/internal/pki"
)

// Client talks to one API server with a client certificate.
type Client struct {
	server string
	http   *http.Client
}

// New makes a client of the API server at that URL.
func New(server, caFile string, identity pki.Pair) (*Client, error) {
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("certificate authority %s holds no certificate", caFile)
	}
	cert, err := tls.LoadX509KeyPair(identity.Cert, identity.Key)
	if err != nil {
		return nil, fmt.Errorf("client certificate: %w", err)
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
	}
	return &Client{server: server, http: &http.Client{Transport: transport, Timeout: 5 * time.Second}}, nil
}

// Get reads a path; into may be nil when only the answer's success matters.
func (c *Client) Get(ctx context.Context, path string, into any) error {
	return c.do(ctx, http.MethodGet, path, "", nil, into)
}

// Post creates the object, given as JSON.
func (c *Client) Post(ctx context.Context, path string, object []byte) error {
	return c.do(ctx, http.MethodPost, path, "application/json", object, nil)
}

func (c *Client) do(ctx context.Context, method, path, contentType string, body []byte, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, c.server+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("request of %s: %w", path, err)
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("api server: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("answer of api server: %w", err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		return &StatusError{Code: response.StatusCode, Body: string(data)}
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("answer of api server to %s: %w", path, err)
	}
	return nil
}

// StatusError is an answer of the API server that says no.
type StatusError struct {
	Code int
	Body string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("api server answers %d: %.400s", e.Code, e.Body)
}
