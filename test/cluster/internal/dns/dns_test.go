// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"testing"
)

// The standard library's own resolver judges our answers.
func resolver(t *testing.T, lookup Lookup) *net.Resolver {
	t.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = packets.Close() })
	go func() { _ = servePackets(packets, lookup) }()
	streams, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = streams.Close() })
	go func() { _ = serveStreams(streams, lookup) }()
	network := "udp"
	if t.Name() == "TestAnswersOverStreams" {
		network = "tcp"
	}
	address := map[string]string{"udp": packets.LocalAddr().String(), "tcp": streams.Addr().String()}[network]
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
}

func known(_ context.Context, name string) ([]netip.Addr, error) {
	switch name {
	case "web.ns.svc.cluster.local":
		return []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")}, nil
	case "broken.ns.svc.cluster.local":
		return nil, errors.New("cannot tell")
	}
	return nil, ErrNoSuchName
}

func checkAnswers(t *testing.T) {
	t.Helper()
	r := resolver(t, known)
	got, err := r.LookupHost(t.Context(), "Web.ns.svc.cluster.local.")
	if err != nil || len(got) != 2 || got[0] != "10.0.0.1" {
		t.Errorf("known name: got %v, %v", got, err)
	}
	var failure *net.DNSError
	if _, err := r.LookupHost(t.Context(), "other.example."); !errors.As(err, &failure) || !failure.IsNotFound {
		t.Errorf("unknown name: got %v, want not found", err)
	}
	if _, err := r.LookupHost(t.Context(), "broken.ns.svc.cluster.local."); !errors.As(err, &failure) || failure.IsNotFound {
		t.Errorf("name that cannot be looked up: got %v, want a failure other than not found", err)
	}
}

func TestAnswers(t *testing.T)            { checkAnswers(t) }
func TestAnswersOverStreams(t *testing.T) { checkAnswers(t) }

func TestParseRefuses(t *testing.T) {
	good := []byte{0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'a', 0, 0, 1, 0, 1}
	if q, err := parse(good); err != nil || q.name != "a" || q.kind != typeA || q.id != 7 {
		t.Fatalf("got %+v, %v", q, err)
	}
	for size := range good {
		if _, err := parse(good[:size]); err == nil {
			t.Errorf("the first %d bytes of a question pass for one", size)
		}
	}
	answered := append([]byte{}, good...)
	answered[2] |= 0x80
	if _, err := parse(answered); err == nil {
		t.Error("an answer passes for a question")
	}
}

func TestSplitName(t *testing.T) {
	for name, want := range map[string][3]string{
		"web.ns.svc.cluster.local":     {"", "web", "ns"},
		"a.web.ns.svc.cluster.local":   {"a", "web", "ns"},
		"ns.svc.cluster.local":         {},
		"web.ns.svc.cluster.local.com": {},
		"example.com":                  {},
	} {
		host, service, namespace, ok := splitName(name)
		if got := [3]string{host, service, namespace}; got != want || ok != (want[1] != "") {
			t.Errorf("%s: got %v, %v", name, got, ok)
		}
	}
}

func TestSliceAddresses(t *testing.T) {
	var list slices
	text := `{"items":[{"addressType":"IPv6","endpoints":[{"addresses":["fd00::1"]}]},{"addressType":"IPv4","endpoints":[
		{"addresses":["10.0.0.1"],"hostname":"a","conditions":{"ready":true}},
		{"addresses":["10.0.0.2"],"hostname":"b","conditions":{"ready":false}}]}]}`
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	if got := list.addresses("", false); len(got) != 1 || got[0].String() != "10.0.0.1" {
		t.Errorf("ready: got %v", got)
	}
	if got := list.addresses("", true); len(got) != 2 {
		t.Errorf("all: got %v", got)
	}
	if got := list.addresses("b", true); len(got) != 1 || got[0].String() != "10.0.0.2" {
		t.Errorf("by host: got %v", got)
	}
}
