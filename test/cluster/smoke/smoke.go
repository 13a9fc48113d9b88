// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package smoke tries everything that tests expect of the cluster, on a running one:
// that pods, Services and features work, and that each fault does what it says and
// can be undone. Each check of a fault also looks at the state before it, so that a
// check which could not fail would be noticed.
package smoke

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"leasehold.dev/test/cluster"
	"leasehold.dev/test/cluster/image"
	"leasehold.dev/test/cluster/internal/wait"
)

const (
	namespace = "leasehold-smoke"
	imageRef  = "leasehold.dev/probe:smoke"
	patience  = 30 * time.Second
)

// runner is one run of all checks.
type runner struct {
	c       *cluster.Cluster
	kubectl string
	out     io.Writer
	failed  []string
}

type check struct {
	name string
	run  func(context.Context) error
}

// Run makes all checks and returns an error that names those that failed.
func Run(ctx context.Context, c *cluster.Cluster, out io.Writer) error {
	kubectl, err := cluster.Tool(ctx, out, "kubectl")
	if err != nil {
		return err
	}
	r := &runner{c: c, kubectl: kubectl, out: out}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	defer r.cleanUp()
	for _, one := range append(r.features(), r.faults()...) {
		started := time.Now()
		err := one.run(ctx)
		if err != nil && len(r.failed) == 2 {
			return fmt.Errorf("smoke checks fail one after the other: %s, %s: %w", strings.Join(r.failed, ", "), one.name, err)
		}
		if err != nil {
			r.failed = append(r.failed, one.name)
			_, _ = fmt.Fprintf(out, "FAIL %-40s %5.1f s: %v\n", one.name, time.Since(started).Seconds(), err)
			continue
		}
		_, _ = fmt.Fprintf(out, "ok   %-40s %5.1f s\n", one.name, time.Since(started).Seconds())
	}
	if len(r.failed) > 0 {
		return fmt.Errorf("smoke checks failed: %s", strings.Join(r.failed, ", "))
	}
	return nil
}

// prepare brings the probe to all nodes and its pods up.
func (r *runner) prepare(ctx context.Context) error {
	if len(r.c.NodeNames()) < 2 {
		return errors.New("smoke checks need a cluster of two nodes that was started here: run up --nodes 2")
	}
	archive := filepath.Join(r.c.Dir(), "images", "probe.tar")
	err := image.Save(archive, image.Spec{
		Ref: imageRef, User: "65532", Entrypoint: []string{"/probe"},
		Files: []image.File{{Source: filepath.Join(r.c.Dir(), "bin", "probe"), Path: "/probe"}},
	})
	if err != nil {
		return err
	}
	if err := r.c.ImportImages(ctx, archive); err != nil {
		return err
	}
	r.cleanUp()
	return r.apply(ctx, manifests(r.c.NodeNames()))
}

func (r *runner) cleanUp() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, name := range r.c.NodeNames() {
		_ = r.c.Heal(ctx, name)
		_ = r.c.Start(ctx, name)
	}
	_, _ = r.kube(ctx, "", "delete", "namespace", namespace, "--ignore-not-found", "--force", "--grace-period=0")
}

func (r *runner) apply(ctx context.Context, text string) error {
	// The account that admission wants is made a moment after the namespace.
	return wait.Within(ctx, patience, "objects of the checks", func() error {
		_, err := r.kube(ctx, text, "apply", "-f", "-")
		return err
	})
}

// kube runs kubectl in the namespace of the checks.
func (r *runner) kube(ctx context.Context, input string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, r.kubectl, append([]string{"--namespace", namespace}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+r.c.Kubeconfig())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}

// field reads one field of an object.
func (r *runner) field(ctx context.Context, object, path string) (string, error) {
	return r.kube(ctx, "", "get", object, "-o", "jsonpath={"+path+"}")
}

// awaitField waits for a field to have that value.
func (r *runner) awaitField(ctx context.Context, object, path, want string) error {
	_, err := r.kube(ctx, "", "wait", object, "--for=jsonpath={"+path+"}="+want, "--timeout="+patience.String())
	if err != nil {
		got, _ := r.field(ctx, object, path)
		return fmt.Errorf("%s of %s is %q: %w", path, object, got, err)
	}
	return nil
}
