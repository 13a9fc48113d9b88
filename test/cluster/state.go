// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"leasehold.dev/test/cluster/internal/process"
)

// Kinds of cluster; they name the state directory.
const (
	kindCluster      = "cluster"
	kindControlPlane = "control-plane"
)

// state is what must be known to find a cluster again and to remove it. It is
// written after each step that makes something, so that a half-made cluster can be
// removed as well.
type state struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Ready is set once Up has finished.
	Ready bool `json:"ready"`
	// Server is the URL of the API server as the host reaches it.
	Server    string                      `json:"server,omitempty"`
	Nodes     []node                      `json:"nodes,omitempty"`
	Processes map[string]*process.Process `json:"processes"`
	// Cuts maps a node that is cut off to how.
	Cuts map[string]CutMode `json:"cuts,omitempty"`
	// Frozen names the nodes that stand still as a whole.
	Frozen map[string]bool `json:"frozen,omitempty"`
}

const stateFile = "state.json"

func newState(kind, name string) state {
	return state{
		Kind: kind, Name: name,
		Processes: map[string]*process.Process{}, Cuts: map[string]CutMode{}, Frozen: map[string]bool{},
	}
}

// loadState returns an empty state if there is none.
func loadState(dir, kind, name string) (state, error) {
	s := newState(kind, name)
	data, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, fmt.Errorf("state of %s %s: %w", kind, name, err)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("state of %s %s is unreadable: %w", kind, name, err)
	}
	return s, nil
}

// save replaces the file in one step: a reader sees the old state or the new.
func (s state) save(dir string) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	temporary := filepath.Join(dir, stateFile+".new")
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	if err := os.Rename(temporary, filepath.Join(dir, stateFile)); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}

// exists tells whether anything was ever started.
func (s state) exists() bool { return len(s.Processes) > 0 }

// dead lists the processes that should run and do not.
func (s state) dead() []string {
	var names []string
	for _, name := range sortedKeys(s.Processes) {
		if !s.Processes[name].Alive() {
			names = append(names, name)
		}
	}
	return names
}
