// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"time"
)

// ErrNoSuchName says that a name does not exist, as opposed to not being known now.
var ErrNoSuchName = errors.New("no such name")

// Lookup returns the addresses of a name.
type Lookup func(ctx context.Context, name string) ([]netip.Addr, error)

const (
	patience = 3 * time.Second
	// What fits into a datagram that every client takes.
	maxAddresses = 24
)

// Serve answers at that address, over both transports, until one of them fails.
func Serve(address string, lookup Lookup) error {
	packets, err := net.ListenPacket("udp", address)
	if err != nil {
		return fmt.Errorf("listen for questions: %w", err)
	}
	streams, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen for questions: %w", err)
	}
	failed := make(chan error, 2)
	go func() { failed <- servePackets(packets, lookup) }()
	go func() { failed <- serveStreams(streams, lookup) }()
	return <-failed
}

func servePackets(packets net.PacketConn, lookup Lookup) error {
	for {
		buffer := make([]byte, 1500)
		n, from, err := packets.ReadFrom(buffer)
		if err != nil {
			return fmt.Errorf("question: %w", err)
		}
		go func() { _, _ = packets.WriteTo(answer(buffer[:n], lookup), from) }()
	}
}

func serveStreams(streams net.Listener, lookup Lookup) error {
	for {
		conn, err := streams.Accept()
		if err != nil {
			return fmt.Errorf("question: %w", err)
		}
		go func() {
			defer func() { _ = conn.Close() }()
			for serveOne(conn, lookup) == nil {
			}
		}()
	}
}

// serveOne answers one question of a stream, where each message follows its length.
func serveOne(conn net.Conn, lookup Lookup) error {
	var size [2]byte
	if err := conn.SetDeadline(time.Now().Add(2 * patience)); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return err
	}
	message := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, message); err != nil {
		return err
	}
	reply := answer(message, lookup)
	binary.BigEndian.PutUint16(size[:], uint16(len(reply)))
	_, err := conn.Write(append(size[:], reply...))
	return err
}

func answer(message []byte, lookup Lookup) []byte {
	q, err := parse(message)
	if err != nil {
		return q.reply(codeUnsupported, nil)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	addresses, err := lookup(ctx, q.name)
	switch {
	case errors.Is(err, ErrNoSuchName):
		return q.reply(codeNoSuchName, nil)
	case err != nil:
		log.Printf("%s: %v", q.name, err)
		return q.reply(codeFailed, nil)
	}
	return q.reply(codeOK, addresses[:min(len(addresses), maxAddresses)])
}
