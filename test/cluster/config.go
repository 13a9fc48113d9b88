// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
)

// Config says which cluster is meant. Its zero value is the cluster "dev" with two nodes.
type Config struct {
	// Name tells clusters of one user apart; it ends up in file and cgroup names.
	Name string
	// Nodes is how many nodes Up starts; 0 stands for two.
	Nodes int
	// Log hears what goes on. The default is standard error.
	Log io.Writer
}

const (
	defaultName  = "dev"
	defaultNodes = 2
	maxNodes     = 40
)

var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?$`)

func (c Config) withDefaults() (Config, error) {
	if c.Name == "" {
		c.Name = defaultName
	}
	if c.Nodes == 0 {
		c.Nodes = defaultNodes
	}
	if c.Log == nil {
		c.Log = os.Stderr
	}
	if !validName.MatchString(c.Name) {
		return c, fmt.Errorf("cluster name %q: use up to 22 lower-case letters, digits and inner dashes", c.Name)
	}
	if c.Nodes < 0 || c.Nodes > maxNodes {
		return c, fmt.Errorf("number of nodes %d: choose between 1 and %d", c.Nodes, maxNodes)
	}
	return c, nil
}

// stateDir is where everything of one cluster is kept; Down removes it.
func stateDir(kind, name string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cache directory: set HOME: %w", err)
	}
	return filepath.Join(cache, "leasehold", kind+"-"+name), nil
}
