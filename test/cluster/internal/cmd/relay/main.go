// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Command relay joins two networks that have no route to each other: it takes
// connections from a listening socket that was handed to it, made in one network,
// and connects each to an address of the network it runs in.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"time"
)

// inherited is the first descriptor after the standard ones.
const inherited = 3

func main() {
	if len(os.Args) < 2 || len(os.Args) > 3 {
		log.Fatal("usage: relay ADDRESS [LOCAL-IP], with a listening socket as descriptor 3")
	}
	dialer := net.Dialer{Timeout: 10 * time.Second}
	if len(os.Args) == 3 {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(os.Args[2])}
	}
	if err := serve(dialer, os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func serve(dialer net.Dialer, target string) error {
	file := os.NewFile(inherited, "listener")
	listener, err := net.FileListener(file)
	if err != nil {
		return fmt.Errorf("inherited listener: %w", err)
	}
	_ = file.Close()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		go relay(dialer, conn.(*net.TCPConn), target)
	}
}

func relay(dialer net.Dialer, client *net.TCPConn, target string) {
	defer func() { _ = client.Close() }()
	conn, err := dialer.Dial("tcp", target)
	if err != nil {
		log.Print(err)
		return
	}
	server := conn.(*net.TCPConn)
	defer func() { _ = server.Close() }()
	done := make(chan struct{}, 2)
	for _, pair := range [][2]*net.TCPConn{{client, server}, {server, client}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			_ = pair[0].CloseWrite() // the other direction may still have something to say
			done <- struct{}{}
		}()
	}
	<-done
	<-done
}
