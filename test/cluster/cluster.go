// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"leasehold.dev/test/cluster/internal/components"
	"leasehold.dev/test/cluster/internal/flock"
	"leasehold.dev/test/cluster/internal/kubeapi"
	"leasehold.dev/test/cluster/internal/pki"
	"leasehold.dev/test/cluster/internal/process"
	"leasehold.dev/test/cluster/internal/wait"
)

// Cluster is a control plane, with or without nodes, that runs or ran here.
type Cluster struct {
	cfg Config
	dir string

	mu    sync.Mutex // guards state, since components start side by side
	state state

	// existing is the kubeconfig of somebody else's cluster that is used instead.
	existing string
}

// ErrNotRunning says that there is no such cluster.
var ErrNotRunning = errors.New("cluster is not running: start it with up")

func load(kind string, cfg Config) (*Cluster, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	dir, err := stateDir(kind, cfg.Name)
	if err != nil {
		return nil, err
	}
	s, err := loadState(dir, kind, cfg.Name)
	if err != nil {
		return nil, err
	}
	return &Cluster{cfg: cfg, dir: dir, state: s}, nil
}

// lock keeps two runs from changing the same cluster at once.
func (c *Cluster) lock(ctx context.Context) (func(), error) {
	unlock, err := flock.Lock(ctx, c.dir+".lock", func() {
		c.logf("waiting for another run that works on %s %s", c.view().Kind, c.cfg.Name)
	})
	if err != nil {
		return nil, err
	}
	if err := c.refresh(); err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// refresh reads the state anew, which another run may have changed.
func (c *Cluster) refresh() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := loadState(c.dir, c.state.Kind, c.cfg.Name)
	if err == nil {
		c.state = s
	}
	return err
}

// view is the state as of now, to be read only.
func (c *Cluster) view() state {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.state
	s.Processes, s.Cuts, s.Frozen = maps.Clone(s.Processes), maps.Clone(s.Cuts), maps.Clone(s.Frozen)
	return s
}

// Kubeconfig is the file by which clients on the host reach the cluster as its administrator.
func (c *Cluster) Kubeconfig() string {
	if c.existing != "" {
		return c.existing
	}
	return c.path("kubeconfig")
}

// Dir holds the logs, the audit log and all other files of the cluster.
func (c *Cluster) Dir() string { return c.dir }

// AuditLog is the API server's audit log: a line of JSON for each request.
func (c *Cluster) AuditLog() string { return c.path("logs", "audit.log") }

func (c *Cluster) path(elements ...string) string {
	return filepath.Join(append([]string{c.dir}, elements...)...)
}

func (c *Cluster) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(c.cfg.Log, format+"\n", args...)
}

// stage tells how long a part of the start took.
func (c *Cluster) stage(started time.Time, what string) {
	c.logf("  %-42s %6.1f s", what, time.Since(started).Seconds())
}

// start runs a program and remembers it under its name.
func (c *Cluster) start(name string, spec process.Spec, files ...*os.File) error {
	if spec.Log == "" {
		spec.Log = c.path("logs", filepath.FromSlash(name)+".log")
	}
	started, err := process.Start(spec, files...)
	if err != nil {
		return fmt.Errorf("start of %s: %w", name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Processes[name] = started
	return c.state.save(c.dir)
}

// process returns the remembered process of that name, or nil.
func (c *Cluster) process(name string) *process.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.Processes[name]
}

func (c *Cluster) change(edit func(*state)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	edit(&c.state)
	return c.state.save(c.dir)
}

// authority is the certificate authority of this cluster.
func (c *Cluster) authority() (*pki.Authority, error) { return pki.Open(c.path("pki")) }

// client speaks to the API server as the administrator.
func (c *Cluster) client() (*kubeapi.Client, error) {
	ca, err := c.authority()
	if err != nil {
		return nil, err
	}
	admin, err := ca.Issue("admin", adminLeaf)
	if err != nil {
		return nil, err
	}
	return kubeapi.New(c.view().Server, ca.CAFile(), admin)
}

// await polls until the condition holds, and gives up early when the named process ends.
func (c *Cluster) await(ctx context.Context, processName, what string, limit time.Duration, try func() error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := wait.Within(ctx, limit, what, func() error {
		if err := c.process(processName).Check(); err != nil {
			cancel(err)
			return err
		}
		return try()
	})
	if cause := context.Cause(ctx); err != nil && cause != nil && ctx.Err() == context.Canceled {
		return cause
	}
	return err
}

// Assets returns a directory with etcd, kube-apiserver and kubectl, as envtest
// wants it in KUBEBUILDER_ASSETS.
func Assets(ctx context.Context, log io.Writer) (string, error) {
	store, err := components.NewStore(ctx, log)
	if err != nil {
		return "", err
	}
	return store.Together(ctx, "etcd", "kube-apiserver", "kubectl")
}

// Tool returns the path of a program such as kubectl or helm.
func Tool(ctx context.Context, log io.Writer, name string) (string, error) {
	store, err := components.NewStore(ctx, log)
	if err != nil {
		return "", err
	}
	paths, err := store.Build(ctx, name)
	return paths[name], err
}

// build makes sure of the named programs.
func (c *Cluster) build(ctx context.Context, names ...string) (map[string]string, error) {
	store, err := components.NewStore(ctx, c.cfg.Log)
	if err != nil {
		return nil, err
	}
	return store.Build(ctx, names...)
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
