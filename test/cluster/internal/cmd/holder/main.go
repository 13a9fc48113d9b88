// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Command holder keeps the namespaces of one node of the cluster alive.
//
// It is started in a new network namespace, and for a node in a new mount namespace
// too, where it first lays out the root directory of a machine of its own: the host's
// programs, but a /run, /tmp and /var that belong to the node. So kubelets and
// container runtimes side by side find their usual paths and leave nothing on the
// host; all mounts vanish with the namespace.
package main

import (
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	log.SetFlags(0)
	data := flag.String("data", "", "directory of the node's /var and /tmp; empty: keep the host's root")
	keep := flag.String("keep", "", "directory that must be seen at the path it has now")
	group := flag.String("group", "", "control group that becomes the node's root group")
	ready := flag.String("ready", "", "file to create when the namespaces are laid out")
	flag.Parse()
	if *data != "" {
		if err := layOut(*data, *keep, *group); err != nil {
			log.Fatal(err)
		}
	}
	if err := os.WriteFile(*ready, nil, 0o644); err != nil {
		log.Fatal(err)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	<-signals
}
