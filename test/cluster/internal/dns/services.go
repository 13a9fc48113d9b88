// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"

	"leasehold.dev/test/cluster/internal/kubeapi"
)

// Domain is what the names of Services end in.
const Domain = "cluster.local"

// Services looks the names of Services up at the API server, each time anew. While it
// does not answer, the last answer holds, as it would with a resolver that watches.
type Services struct {
	API *kubeapi.Client

	mu   sync.Mutex
	last map[string][]netip.Addr
}

// Lookup knows <service>.<namespace>.svc.<Domain>, and for a Service without an
// address of its own also <host>. before that.
func (s *Services) Lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	host, service, namespace, ok := splitName(name)
	if !ok {
		return nil, ErrNoSuchName
	}
	addresses, err := s.ask(ctx, host, service, namespace)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		if s.last == nil {
			s.last = map[string][]netip.Addr{}
		}
		s.last[name] = addresses
		return addresses, nil
	}
	if last, known := s.last[name]; known && !errors.Is(err, ErrNoSuchName) {
		return last, nil
	}
	return nil, err
}

func splitName(name string) (host, service, namespace string, ok bool) {
	rest, ok := strings.CutSuffix(name, ".svc."+Domain)
	if !ok {
		return "", "", "", false
	}
	labels := strings.Split(rest, ".")
	switch len(labels) {
	case 2:
		return "", labels[0], labels[1], true
	case 3:
		return labels[0], labels[1], labels[2], true
	}
	return "", "", "", false
}

func (s *Services) ask(ctx context.Context, host, service, namespace string) ([]netip.Addr, error) {
	var object struct {
		Spec struct {
			ClusterIP                string
			PublishNotReadyAddresses bool
		}
	}
	path := "/api/v1/namespaces/" + url.PathEscape(namespace) + "/services/" + url.PathEscape(service)
	if err := notFound(s.API.Get(ctx, path, &object)); err != nil {
		return nil, err
	}
	if ip, err := netip.ParseAddr(object.Spec.ClusterIP); err == nil {
		if host != "" {
			return nil, ErrNoSuchName
		}
		return []netip.Addr{ip}, nil
	}
	return s.endpoints(ctx, host, service, namespace, object.Spec.PublishNotReadyAddresses)
}

// slices are the EndpointSlices of a Service.
type slices struct {
	Items []struct {
		AddressType string
		Endpoints   []endpoint
	}
}

type endpoint struct {
	Addresses  []string
	Hostname   string
	Conditions struct{ Ready *bool }
}

func (s *Services) endpoints(ctx context.Context, host, service, namespace string, unready bool) ([]netip.Addr, error) {
	var list slices
	path := "/apis/discovery.k8s.io/v1/namespaces/" + url.PathEscape(namespace) +
		"/endpointslices?labelSelector=" + url.QueryEscape("kubernetes.io/service-name="+service)
	if err := notFound(s.API.Get(ctx, path, &list)); err != nil {
		return nil, err
	}
	addresses := list.addresses(host, unready)
	if len(addresses) == 0 {
		return nil, ErrNoSuchName
	}
	return addresses, nil
}

func (l slices) addresses(host string, unready bool) []netip.Addr {
	var found []netip.Addr
	for _, slice := range l.Items {
		if slice.AddressType != "IPv4" {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			if endpoint.wanted(host, unready) {
				found = append(found, parseAll(endpoint.Addresses)...)
			}
		}
	}
	return found
}

func (e endpoint) wanted(host string, unready bool) bool {
	ready := e.Conditions.Ready == nil || *e.Conditions.Ready
	return (ready || unready) && (host == "" || e.Hostname == host)
}

func parseAll(texts []string) []netip.Addr {
	var found []netip.Addr
	for _, text := range texts {
		if ip, err := netip.ParseAddr(text); err == nil && ip.Is4() {
			found = append(found, ip)
		}
	}
	return found
}

func notFound(err error) error {
	var status *kubeapi.StatusError
	if errors.As(err, &status) && status.Code == http.StatusNotFound {
		return ErrNoSuchName
	}
	return err
}
