// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/x509"
	"testing"
)

func TestIssuedCertificatesVerify(t *testing.T) {
	dir := t.TempDir()
	authority, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue("server", Leaf{CommonName: "server", Organizations: []string{"o"}, Hosts: []string{"10.0.0.1", "name"}})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := loadCert(pair.Cert)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(authority.cert)
	for name, good := range map[string]bool{"10.0.0.1": true, "name": true, "10.0.0.2": false, "other": false} {
		_, err := cert.Verify(x509.VerifyOptions{Roots: pool, DNSName: name, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
		if (err == nil) != good {
			t.Errorf("verify for %s: %v", name, err)
		}
	}
	other, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(other.cert)
	if _, err := cert.Verify(x509.VerifyOptions{Roots: pool, DNSName: "name"}); err == nil {
		t.Error("certificate verifies against another authority")
	}
}

func TestOpenAgainKeepsEverything(t *testing.T) {
	dir := t.TempDir()
	first, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := first.Issue("a", Leaf{CommonName: "a"})
	if err != nil {
		t.Fatal(err)
	}
	before, err := loadCert(pair.Cert)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !second.cert.Equal(first.cert) {
		t.Error("authority changed")
	}
	if _, err := second.Issue("a", Leaf{CommonName: "a"}); err != nil {
		t.Fatal(err)
	}
	after, err := loadCert(pair.Cert)
	if err != nil {
		t.Fatal(err)
	}
	if !after.Equal(before) {
		t.Error("certificate changed")
	}
}
