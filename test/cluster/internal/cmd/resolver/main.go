// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Command resolver tells pods the addresses of Services by name.
package main

import (
	"flag"
	"log"

	"leasehold.dev/test/cluster/internal/dns"
	"leasehold.dev/test/cluster/internal/kubeapi"
	"leasehold.dev/test/cluster/internal/pki"
)

func main() {
	listen := flag.String("listen", "", "address to answer at")
	server := flag.String("server", "", "URL of the API server")
	ca := flag.String("ca", "", "certificate authority of the API server")
	cert := flag.String("cert", "", "certificate to ask with")
	key := flag.String("key", "", "its private key")
	flag.Parse()
	client, err := kubeapi.New(*server, *ca, pki.Pair{Cert: *cert, Key: *key})
	if err != nil {
		log.Fatal(err)
	}
	services := &dns.Services{API: client}
	log.Fatal(dns.Serve(*listen, services.Lookup))
}
