// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Package harness puts Leasehold on a real cluster, as a user would: images
// built from this tree, manifests applied with kubectl, and a PostgreSQL that
// pods can reach. The demonstration and the end-to-end tests share it.
package harness

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/controllers"
	"leasehold.dev/test/cluster"
)

// Harness is a cluster with the means to work on it.
type Harness struct {
	*cluster.Cluster
	// Client reads and writes as the cluster's administrator, live.
	Client client.WithWatch
	// Root is the source tree.
	Root string

	kubectl string
	log     io.Writer
}

// Up starts the cluster, or finds it running.
func Up(ctx context.Context, config cluster.Config) (*Harness, error) {
	c, err := cluster.Up(ctx, config)
	if err != nil {
		return nil, err
	}
	h := &Harness{Cluster: c, log: config.Log}
	if h.log == nil {
		h.log = os.Stderr
	}
	if h.Root, err = root(ctx); err != nil {
		return nil, err
	}
	if h.kubectl, err = cluster.Tool(ctx, h.log, "kubectl"); err != nil {
		return nil, err
	}
	rest, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, err
	}
	rest.QPS = -1
	h.Client, err = client.NewWithWatch(rest, client.Options{Scheme: controllers.Scheme()})
	return h, err
}

// root finds the source tree by its go.mod.
func root(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// Kubectl runs kubectl as the administrator, from the root of the source tree,
// and returns what it printed.
func (h *Harness) Kubectl(ctx context.Context, args ...string) (string, error) {
	return h.KubectlInput(ctx, "", args...)
}

// KubectlInput is Kubectl with something on standard input.
func (h *Harness) KubectlInput(ctx context.Context, input string, args ...string) (string, error) {
	cmd := h.KubectlCommand(ctx, args...)
	cmd.Stdin = strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// KubectlCommand prepares kubectl as the administrator, from the root of the
// source tree.
func (h *Harness) KubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, h.kubectl, append([]string{"--kubeconfig", h.Kubeconfig()}, args...)...)
	cmd.Dir = h.Root
	return cmd
}

// Install brings this tree's images to the nodes and applies config/default.
func (h *Harness) Install(ctx context.Context) error {
	digest, err := h.LoadImages(ctx)
	if err != nil {
		return err
	}
	before, err := h.Kubectl(ctx, "get", "deployment", "-A", "-l", "app.kubernetes.io/name=leasehold", "-o", "name")
	if err != nil {
		return err
	}
	if _, err := h.Kubectl(ctx, "apply", "-k", "config/default"); err != nil {
		return err
	}
	if before != "" {
		// The tag stays the same; the digest rolls the pods out when the program changed.
		patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"leasehold.dev/image-digest":%q}}}}}`, digest)
		if _, err := h.Kubectl(ctx, "-n", Namespace, "patch", "deployment", Deployment, "--type=merge", "-p", patch); err != nil {
			return err
		}
	}
	return h.Ready(ctx)
}

// Where config/default and the chart put the manager.
const (
	Namespace  = "leasehold-system"
	Deployment = "leasehold-manager"
)

// Ready waits until the manager runs.
func (h *Harness) Ready(ctx context.Context) error {
	_, err := h.Kubectl(ctx, "-n", Namespace, "rollout", "status", "deployment", Deployment, "--timeout=120s")
	return err
}
