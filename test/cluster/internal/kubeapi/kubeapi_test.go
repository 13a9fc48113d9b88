// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"crypto/tls"
	"crypto/x509"
	"net/http/httptest"

	"leasehold.dev/test/cluster/internal/pki"
)

func pair(t *testing.T, ca *pki.Authority, name string, hosts ...string) pki.Pair {
	t.Helper()
	p, err := ca.Issue(name, pki.Leaf{CommonName: name, Hosts: hosts})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func serve(t *testing.T, ca *pki.Authority) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ok" {
			http.Error(w, "no such thing", http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(`{"user":"` + r.TLS.PeerCertificates[0].Subject.CommonName + `"}`))
	}))
	serving := pair(t, ca, "server", "127.0.0.1")
	cert, err := tls.LoadX509KeyPair(serving.Cert, serving.Key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(ca.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(text)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func TestClient(t *testing.T) {
	ca, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	server := serve(t, ca)
	client, err := New(server.URL, ca.CAFile(), pair(t, ca, "admin"))
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ User string }
	if err := client.Get(context.Background(), "/ok", &answer); err != nil || answer.User != "admin" {
		t.Errorf("got %+v, %v", answer, err)
	}
	var status *StatusError
	if err := client.Get(context.Background(), "/other", nil); !errors.As(err, &status) || status.Code != http.StatusNotFound {
		t.Errorf("got %v, want a status error 404", err)
	}
	stranger, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	client, err = New(server.URL, stranger.CAFile(), pair(t, ca, "admin"))
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Get(context.Background(), "/ok", nil); err == nil {
		t.Error("a server of another authority is trusted")
	}
}

func TestWriteKubeconfig(t *testing.T) {
	ca, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "sub", "kubeconfig")
	if err := WriteKubeconfig(file, "c", "https://127.0.0.1:1", "u", ca.CAFile(), pair(t, ca, "admin")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"server: https://127.0.0.1:1\n", "current-context: c\n", "user: u\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("kubeconfig lacks %q", want)
		}
	}
	if info, _ := os.Stat(file); info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig has mode %v", info.Mode())
	}
}
