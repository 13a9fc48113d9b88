// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"leasehold.dev/test/cluster/internal/netns"
	"leasehold.dev/test/cluster/internal/process"
)

// Dial connects from this process to an address within the cluster: of a pod, of a
// node, or of a server on the control machine.
func (c *Cluster) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	pid, err := c.holderPID(control)
	if err != nil {
		return nil, err
	}
	var conn net.Conn
	err = netns.Do(pid, func() error {
		dialer := net.Dialer{LocalAddr: outsider(network)}
		conn, err = dialer.DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// outsider is the address that connections from the host come from, which is not the
// API server's, so that cutting a node off from that leaves them alone.
func outsider(network string) net.Addr {
	ip := net.ParseIP(ServicesIP)
	if strings.HasPrefix(network, "udp") {
		return &net.UDPAddr{IP: ip}
	}
	return &net.TCPAddr{IP: ip}
}

// Listen listens at an address of the control machine, ServicesIP for one that pods
// reach; the connections are this process's.
func (c *Cluster) Listen(network, address string) (net.Listener, error) {
	pid, err := c.holderPID(control)
	if err != nil {
		return nil, err
	}
	var listener net.Listener
	err = netns.Do(pid, func() error {
		listener, err = net.Listen(network, address)
		return err
	})
	return listener, err
}

// Forward makes an address within the cluster reachable for every program of the
// host, at the loopback address that it returns, until the cluster ends.
func (c *Cluster) Forward(ctx context.Context, target string) (string, error) {
	if c.existing != "" {
		return "", fmt.Errorf("forwarder to %s: %w", target, errNotOurs)
	}
	unlock, err := c.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	return c.forward("host/forward-"+target, "127.0.0.1:0", target)
}

func (c *Cluster) forward(name, local, target string) (string, error) {
	if p := c.process(name); p.Alive() {
		return p.Spec.Env[0][len(localEnv):], nil
	}
	listener, err := net.Listen("tcp", local)
	if err != nil {
		return "", fmt.Errorf("forwarder to %s: %w", target, err)
	}
	enter, err := c.enter(control)
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), c.relay(name, listener, enter, target, ServicesIP)
}

// Expose makes a server on the host's loopback reachable for pods, at ServicesIP and
// that port, until the cluster ends.
func (c *Cluster) Expose(ctx context.Context, port int, target string) (string, error) {
	host, _, err := net.SplitHostPort(target)
	if err != nil {
		return "", fmt.Errorf("server to expose: %w", err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return "", fmt.Errorf("server to expose %s: only addresses of loopback, since the cluster may not reach out", target)
	}
	unlock, err := c.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	address := net.JoinHostPort(ServicesIP, strconv.Itoa(port))
	if p := c.process("host/expose-" + address); p.Alive() {
		return address, nil
	}
	listener, err := c.Listen("tcp", address)
	if err != nil {
		return "", fmt.Errorf("exposed port: %w", err)
	}
	return address, c.relay("host/expose-"+address, listener, nil, target)
}

// localEnv keeps a forwarder's own address with its process.
const localEnv = "LOCAL="

func (c *Cluster) relay(name string, listener net.Listener, enter []string, args ...string) error {
	defer func() { _ = listener.Close() }()
	file, err := listener.(*net.TCPListener).File()
	if err != nil {
		return fmt.Errorf("socket of forwarder: %w", err)
	}
	defer func() { _ = file.Close() }()
	return c.start(name, process.Spec{
		Path: c.path("bin", "relay"), Args: args, Enter: enter,
		Env: []string{localEnv + listener.Addr().String()},
	}, []*os.File{file}...)
}

func (c *Cluster) holderPID(machine string) (int, error) {
	if c.existing != "" {
		return 0, errNotOurs
	}
	holder := c.process(holderOf(machine))
	if !holder.Alive() {
		return 0, fmt.Errorf("machine %s of cluster %s: %w", machine, c.cfg.Name, ErrNotRunning)
	}
	return holder.PID, nil
}
