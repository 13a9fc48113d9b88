// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package redistest

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"leasehold.dev/internal/testenv/child"
)

const slots = 16384

// Cluster is a Redis cluster whose servers share all slots.
type Cluster struct {
	// Primaries have the slots, in order and in equal parts.
	Primaries []*Server
	others    []*Server
}

// StartCluster starts a cluster of n primaries, and returns when all of them
// know that every slot is served.
func StartCluster(ctx context.Context, n int) (*Cluster, error) {
	c := &Cluster{}
	for range n {
		s, err := startMember(ctx)
		if err != nil {
			return nil, errors.Join(err, c.Stop())
		}
		c.Primaries = append(c.Primaries, s)
	}
	if err := c.form(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("form a cluster: %w", err), c.Stop())
	}
	return c, nil
}

func startMember(ctx context.Context) (*Server, error) {
	// The default, the port and 10000, may not be free, nor a port at all.
	bus, err := child.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	return Start(ctx, "cluster-enabled yes", fmt.Sprintf("cluster-port %d", bus), "cluster-node-timeout 2000")
}

func (c *Cluster) form(ctx context.Context) error {
	n := len(c.Primaries)
	for i, s := range c.Primaries {
		if err := s.with(func(client *redis.Client) error {
			return client.ClusterAddSlotsRange(ctx, i*slots/n, (i+1)*slots/n-1).Err()
		}); err != nil {
			return err
		}
		if err := c.meet(ctx, s); err != nil {
			return err
		}
	}
	for _, s := range c.Primaries {
		if err := s.WaitReady(ctx, func(ctx context.Context) error { return s.knows(ctx, n) }); err != nil {
			return err
		}
	}
	return nil
}

// meet introduces a member to the first one.
func (c *Cluster) meet(ctx context.Context, s *Server) error {
	first := c.Primaries[0]
	if s == first {
		return nil
	}
	bus, err := first.busPort(ctx)
	if err != nil {
		return err
	}
	return s.with(func(client *redis.Client) error {
		return client.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", first.port, bus).Err()
	})
}

func (s *Server) busPort(ctx context.Context) (port string, err error) {
	err = s.with(func(client *redis.Client) error {
		port = client.ConfigGet(ctx, "cluster-port").Val()["cluster-port"]
		return nil
	})
	if port == "" {
		err = errors.Join(err, errors.New("no cluster-port"))
	}
	return port, err
}

// knows tells whether the server has met n members and can serve every slot.
func (s *Server) knows(ctx context.Context, n int) error {
	return s.with(func(client *redis.Client) error {
		members, err := client.ClusterShards(ctx).Result()
		if err != nil {
			return err
		}
		info, err := client.ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}
		if len(members) != n || !hasLine(info, "cluster_state:ok") {
			return fmt.Errorf("%d of %d members, %s", len(members), n, info)
		}
		return nil
	})
}

// StartReplica adds a replica of the i-th primary, and returns when it has
// caught up and all primaries would let it take over.
func (c *Cluster) StartReplica(ctx context.Context, i int) (*Server, error) {
	replica, err := startMember(ctx)
	if err != nil {
		return nil, err
	}
	c.others = append(c.others, replica)
	if err := c.meet(ctx, replica); err != nil {
		return nil, err
	}
	var id string
	if err := c.Primaries[i].with(func(client *redis.Client) (err error) {
		id, err = client.Do(ctx, "CLUSTER", "MYID").Text()
		return err
	}); err != nil {
		return nil, err
	}
	err = replica.WaitReady(ctx, func(ctx context.Context) error { // until it has heard of the primary
		return replica.with(func(client *redis.Client) error { return client.ClusterReplicate(ctx, id).Err() })
	})
	if err == nil {
		err = replica.WaitReady(ctx, replica.linked)
	}
	for _, s := range c.Primaries {
		err = errors.Join(err, s.WaitReady(ctx, func(ctx context.Context) error { return s.knowsReplica(ctx, id) }))
	}
	return replica, err
}

// knowsReplica tells whether the server knows a replica of the member with that
// id.
func (s *Server) knowsReplica(ctx context.Context, id string) error {
	return s.with(func(client *redis.Client) error {
		replicas, err := client.Do(ctx, "CLUSTER", "REPLICAS", id).StringSlice()
		if err == nil && len(replicas) == 0 {
			err = errors.New("the replica is not known yet")
		}
		return err
	})
}

// Addrs are those of the primaries.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, s := range c.Primaries {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// Stop ends all servers.
func (c *Cluster) Stop() error {
	var err error
	for _, s := range append(c.others, c.Primaries...) {
		err = errors.Join(err, s.Stop())
	}
	return err
}
