// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Command probe runs in pods and tells what they can reach.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"leasehold.dev/test/cluster/internal/wait"
)

const patience = 3 * time.Second

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(args []string) error {
	args = append(args, "", "")
	what, operand := args[0], args[1]
	switch what {
	case "serve":
		return serve(operand)
	case "get":
		return again(func() error { return get(http.DefaultClient, operand) })
	case "api":
		return again(api)
	case "exit-once":
		return exitOnce(operand)
	case "ok":
		fmt.Println("ok")
		return nil
	}
	return errors.New("usage: probe serve ADDRESS | get URL | api | exit-once FILE | ok")
}

// again tries for a while, since a Service has no rules for an instant after it was
// made, and an exit would cost the kubelet's back-off.
func again(try func() error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
	defer cancel()
	return wait.For(ctx, "an answer", try)
}

// serve answers with its host's name, and at /api with what the API server says.
func serve(address string) error {
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		name, _ := os.Hostname()
		_, _ = fmt.Fprintln(w, name)
	})
	http.HandleFunc("/api", func(w http.ResponseWriter, _ *http.Request) {
		if err := api(); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	})
	server := &http.Server{Addr: address, ReadHeaderTimeout: patience}
	return server.ListenAndServe()
}

// api asks the API server as the pod's own account, the way every client in a pod does.
func api() error {
	const dir = "/var/run/secrets/kubernetes.io/serviceaccount/"
	token, err := os.ReadFile(dir + "token")
	if err != nil {
		return fmt.Errorf("token: %w", err)
	}
	ca, err := os.ReadFile(dir + "ca.crt")
	if err != nil {
		return fmt.Errorf("certificate authority: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	client := &http.Client{Transport: bearer{token: string(token), base: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true,
	}}}
	server := net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	return get(client, "https://"+server+"/apis")
}

type bearer struct {
	token string
	base  http.RoundTripper
}

func (b bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+b.token)
	return b.base.RoundTrip(request)
}

func get(client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("request: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 200))
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	fmt.Printf("%s: %d: %s\n", url, response.StatusCode, body)
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %d", url, response.StatusCode)
	}
	return nil
}

// exitOnce fails with 75 the first time that it is run in a pod.
func exitOnce(file string) error {
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		return fmt.Errorf("mark of first run: %w", err)
	}
	os.Exit(75)
	return nil
}
