// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pki makes the certificates by which the programs of a cluster know each other.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const validity = 365 * 24 * time.Hour

// Authority signs the certificates of one cluster and keeps all files in one directory.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
}

// Leaf says whom a certificate is for.
type Leaf struct {
	CommonName    string
	Organizations []string
	// Hosts are names and addresses, for certificates of servers.
	Hosts []string
}

// Pair is a certificate and its private key, as file names.
type Pair struct{ Cert, Key string }

// Open loads the authority in dir, or makes it.
func Open(dir string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory of certificates: %w", err)
	}
	a := &Authority{dir: dir}
	pair := a.pair("ca")
	key, err := loadOrMakeKey(pair.Key)
	if err != nil {
		return nil, err
	}
	a.key = key
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "leasehold-test-cluster"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	if a.cert, err = loadCert(pair.Cert); err == nil {
		return a, nil
	}
	a.cert, err = sign(template, template, key.Public(), key, pair.Cert)
	return a, err
}

// CAFile is the certificate that others trust.
func (a *Authority) CAFile() string { return a.pair("ca").Cert }

// Issue returns the certificate of that file name, having made it if it was missing.
func (a *Authority) Issue(name string, leaf Leaf) (Pair, error) {
	pair := a.pair(name)
	if _, err := loadCert(pair.Cert); err == nil {
		return pair, nil
	}
	key, err := loadOrMakeKey(pair.Key)
	if err != nil {
		return Pair{}, err
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: leaf.CommonName, Organization: leaf.Organizations},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	for _, host := range leaf.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	_, err = sign(template, a.cert, key.Public(), a.key, pair.Cert)
	return pair, err
}

// Key returns the file of a private key that stands alone, as for service-account tokens.
func (a *Authority) Key(name string) (string, error) {
	file := a.pair(name).Key
	_, err := loadOrMakeKey(file)
	return file, err
}

func (a *Authority) pair(name string) Pair {
	return Pair{Cert: filepath.Join(a.dir, name+".crt"), Key: filepath.Join(a.dir, name+".key")}
}

func sign(template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer, file string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("serial number: %w", err)
	}
	template.SerialNumber = serial
	// Back-dated a little, since a certificate may be checked within the same second.
	template.NotBefore = time.Now().Add(-time.Minute)
	template.NotAfter = time.Now().Add(validity)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate of %s: %w", template.Subject.CommonName, err)
	}
	if err := writePEM(file, "CERTIFICATE", der); err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func loadCert(file string) (*x509.Certificate, error) {
	der, err := readPEM(file)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func loadOrMakeKey(file string) (crypto.Signer, error) {
	der, err := readPEM(file)
	if errors.Is(err, fs.ErrNotExist) {
		return makeKey(file)
	}
	if err != nil {
		return nil, err
	}
	key, err := x509.ParseECPrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("private key %s: remove it to have it made anew: %w", file, err)
	}
	return key, nil
}

func makeKey(file string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	return key, writePEM(file, "EC PRIVATE KEY", der)
}

func readPEM(file string) ([]byte, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block: remove it to have it made anew", file)
	}
	return block.Bytes, nil
}

func writePEM(file, kind string, der []byte) error {
	data := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(file), err)
	}
	return nil
}
