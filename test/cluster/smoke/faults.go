// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package smoke

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"leasehold.dev/test/cluster"
	"leasehold.dev/test/cluster/internal/wait"
)

func (r *runner) faults() []check {
	return []check{
		{"freeze and thaw a container", r.freeze},
		{"freeze and thaw a node", r.freezeNode},
		{"cut and heal", r.cut},
		{"cut from everything and heal", r.cutAll},
		{"stop and start a kubelet", r.stopKubelet},
		{"kill a container", r.kill},
		{"stop and start the API server", r.stopAPIServer},
		{"save and restore the store", r.restoreStore},
	}
}

func fileContains(name, text string) bool {
	data, err := os.ReadFile(name)
	return err == nil && bytes.Contains(data, []byte(text))
}

// web asks the server in the pod, which is on the first node, within a short while.
func (r *runner) web(ctx context.Context, path string) (int, error) {
	ip, err := r.field(ctx, "pod/web", ".status.podIP")
	if err != nil {
		return 0, err
	}
	return r.get(ctx, "http://"+net.JoinHostPort(ip, "8080")+path, r.c.Dial)
}

func (r *runner) get(ctx context.Context, url string, dial func(context.Context, string, string) (net.Conn, error)) (int, error) {
	client := &http.Client{Timeout: 4 * time.Second, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// answers waits until the pod's server answers with that status.
func (r *runner) answers(ctx context.Context, path string, want int) error {
	return wait.Within(ctx, patience, "answer of the server in the pod", func() error {
		got, err := r.web(ctx, path)
		if err == nil && got != want {
			err = fmt.Errorf("it answers %d, want %d", got, want)
		}
		return err
	})
}

// silent makes sure that a request gets no answer at all, not even a refusal.
func silent(code int, err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return nil
	}
	return fmt.Errorf("want silence, got answer %d, error %w", code, err)
}

func (r *runner) freeze(ctx context.Context) error {
	return r.stillBetween(ctx,
		func() error { return r.c.Freeze(ctx, namespace, "web", "web") },
		func() error { return r.c.Thaw(ctx, namespace, "web", "web") })
}

func (r *runner) freezeNode(ctx context.Context) error {
	node := r.c.NodeNames()[0]
	return r.stillBetween(ctx,
		func() error { return r.c.FreezeNode(ctx, node) },
		func() error { return r.c.ThawNode(ctx, node) })
}

func (r *runner) cutAll(ctx context.Context) error {
	node := r.c.NodeNames()[0]
	return r.stillBetween(ctx,
		func() error { return r.c.Cut(ctx, node, cluster.CutAll) },
		func() error { return r.c.Heal(ctx, node) })
}

// stillBetween makes sure that the server answers before a fault and after its end,
// and not in between.
func (r *runner) stillBetween(ctx context.Context, begin, end func() error) error {
	if err := r.answers(ctx, "/", http.StatusOK); err != nil {
		return err
	}
	if err := begin(); err != nil {
		return err
	}
	quiet := silent(r.web(ctx, "/"))
	if err := errors.Join(quiet, end()); err != nil {
		return err
	}
	return r.answers(ctx, "/", http.StatusOK)
}

// cut makes sure that the API server is gone for the pod while everything else is
// still there, and that the API server cannot reach the kubelet either.
func (r *runner) cut(ctx context.Context) error {
	node := r.c.NodeNames()[0]
	if err := r.answers(ctx, "/api", http.StatusOK); err != nil {
		return err
	}
	if err := r.c.Cut(ctx, node, cluster.CutAPI); err != nil {
		return err
	}
	err := errors.Join(
		r.answers(ctx, "/", http.StatusOK),
		r.answers(ctx, "/api", http.StatusBadGateway),
		r.kubeletUnreachable(ctx),
		r.c.Heal(ctx, node),
	)
	if err != nil {
		return err
	}
	return r.answers(ctx, "/api", http.StatusOK)
}

func (r *runner) kubeletUnreachable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := r.kube(ctx, "", "logs", "web"); err == nil {
		return errors.New("API server still reaches the kubelet")
	}
	return nil
}

func (r *runner) stopKubelet(ctx context.Context) error {
	node := r.c.NodeNames()[0]
	if err := r.c.Stop(ctx, node); err != nil {
		return err
	}
	var errs []error
	if _, err := r.kube(ctx, "", "logs", "web"); err == nil {
		errs = append(errs, errors.New("kubelet still answers"))
	}
	errs = append(errs, r.answers(ctx, "/", http.StatusOK), r.c.Start(ctx, node))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return wait.Within(ctx, patience, "kubelet to answer again", func() error {
		_, err := r.kube(ctx, "", "logs", "web")
		return err
	})
}

func (r *runner) kill(ctx context.Context) error {
	before, err := r.field(ctx, "pod/web", ".status.containerStatuses[0].restartCount")
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(before)
	if err != nil {
		return fmt.Errorf("restart count: %w", err)
	}
	if err := r.c.Kill(ctx, namespace, "web", "web", syscall.SIGKILL); err != nil {
		return err
	}
	if err := r.awaitField(ctx, "pod/web", ".status.containerStatuses[0].restartCount", strconv.Itoa(count+1)); err != nil {
		return err
	}
	return r.answers(ctx, "/", http.StatusOK)
}

func (r *runner) stopAPIServer(ctx context.Context) error {
	const name = "control/kube-apiserver"
	if err := r.c.Stop(ctx, name); err != nil {
		return err
	}
	var errs []error
	if err := r.c.Healthy(ctx); err == nil {
		errs = append(errs, errors.New("API server still answers"))
	}
	if err := errors.Join(append(errs, r.c.Start(ctx, name))...); err != nil {
		return err
	}
	return wait.Within(ctx, patience, "cluster to be healthy again", func() error { return r.c.Healthy(ctx) })
}

// restoreStore goes back to a copy: what was written since is gone, and resource
// versions are given out again.
func (r *runner) restoreStore(ctx context.Context) error {
	dir := filepath.Join(r.c.Dir(), "smoke-store")
	defer func() { _ = os.RemoveAll(dir) }()
	if err := r.create(ctx, "before"); err != nil {
		return err
	}
	if err := r.c.SaveStore(ctx, dir); err != nil {
		return err
	}
	if err := r.create(ctx, "after"); err != nil {
		return err
	}
	if err := r.c.RestoreStore(ctx, dir); err != nil {
		return err
	}
	if _, err := r.field(ctx, "configmap/before", ".metadata.uid"); err != nil {
		return err
	}
	if uid, err := r.field(ctx, "configmap/after", ".metadata.uid"); err == nil {
		return fmt.Errorf("object %s that was written after the copy is still there", uid)
	}
	return nil
}

func (r *runner) create(ctx context.Context, name string) error {
	_, err := r.kube(ctx, "", "create", "configmap", name)
	return err
}

// exposed has a pod ask a server that this very process runs on loopback.
func (r *runner) exposed(ctx context.Context) error {
	asked := make(chan struct{}, 16)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} }))
	defer server.Close()
	port := server.Listener.Addr().(*net.TCPAddr).Port
	address, err := r.c.Expose(ctx, port, server.Listener.Addr().String())
	if err != nil {
		return err
	}
	if _, err := r.kube(ctx, "", "exec", "web", "--", "/probe", "get", "http://"+address+"/"); err != nil {
		return err
	}
	select {
	case <-asked:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
