// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package agent

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"leasehold.dev/internal/agent/work"
	"leasehold.dev/internal/holder/clock"
	"leasehold.dev/internal/holder/core"
	"leasehold.dev/internal/holder/leases"
	"leasehold.dev/internal/holder/message"
	"leasehold.dev/leaderelect/lease"
)

const userAgent = "leasehold-agent"

// lastWords is how long the agent waits for its last log lines to be written.
const lastWords = 200 * time.Millisecond

// Main runs the agent's command line, without the program's name, and returns
// the exit status.
func Main(ctx context.Context, args []string) int {
	if len(args) > 0 && args[0] == "run" {
		return runCommand(ctx, args[1:])
	}
	if len(args) > 0 && (args[0] == "-h" || args[0] == "--help" || args[0] == "help") {
		_, _ = parse([]string{"--help"}, os.Getenv, os.Stdout)
		return 0
	}
	fmt.Fprintln(os.Stderr, "leasehold: want: agent run [flags] -- command [args…]; see agent run --help")
	return ExitUsage
}

func runCommand(ctx context.Context, args []string) int {
	o, err := parse(args, os.Getenv, os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return complain(ExitUsage, err)
	}
	path, code, err := work.Find(o.command[0])
	if err != nil {
		return complain(code, err)
	}
	client, err := newClient(o)
	if err != nil {
		return complain(ExitNoAPI, err)
	}
	runner, err := work.NewRunner()
	if err != nil {
		return complain(ExitInternal, err)
	}
	defer runner.Close()
	return o.run(ctx, os.Stderr, client, &command{runner: runner, path: path, argv: o.command,
		namespace: o.namespace, lease: o.leaseName})
}

func complain(code int, err error) int {
	fmt.Fprintf(os.Stderr, "leasehold: %v\n", err)
	return code
}

func newClient(o options) (*leases.Client, error) {
	config, err := restConfig(o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("no API server is configured: %w", err)
	}
	return leases.New(config, userAgent, o.namespace, o.leaseName)
}

// restConfig ignores the environment's KUBECONFIG, and in a pod also its
// HTTPS_PROXY: they are the command's.
func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig != "" {
		return clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, err
	}
	config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	return config, nil
}

// run waits for terms and runs the work in them; the exit status.
func (o options) run(ctx context.Context, stderr io.Writer, client *leases.Client, w worker) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	log := newLogger(stderr)
	c := clock.New()
	d := &driver{
		clock: c, store: client, worker: w, log: log,
		machine: core.New(o.config(log)),
		guard:   newGuard(ctx, c, w.kill),
		events:  make(chan core.Event),
		announce: func(nonce string) {
			if err := message.Append(o.message, nonce); err != nil {
				log.printf("the termination message cannot be written, so after a crash the next holder has to wait for longer: %v", err)
			}
		},
	}
	stop := d.forwardSignals(ctx)
	defer stop()
	watcher := &leases.Watcher{
		Client: client, Clock: c,
		Report:  func(change leases.Change) { d.report(ctx, watched(change)) },
		Trouble: troubleTeller(log),
	}
	go watcher.Run(ctx)
	code := d.run(ctx)
	timeout, cancelTimeout := context.WithTimeout(ctx, lastWords)
	defer cancelTimeout()
	log.close(timeout.Done())
	return code
}

func (o options) config(log *logger) core.Config {
	from, err := origin(o.container)
	if err != nil {
		log.printf("after a restart of this container the term of its earlier start will have to lapse: %v", err)
	}
	return core.Config{
		Holder:         lease.Holder(o.podName, o.podUID),
		Origin:         from,
		Random:         random,
		Jitter:         func() float64 { return 0.5 + rand.Float64() },
		StopGrace:      o.stopGrace,
		ReleaseTimeout: o.release,
	}
}

// troubleTeller tells of the first failure and of the end of failing.
func troubleTeller(log *logger) func(error) {
	failing := false
	return func(err error) {
		switch {
		case err != nil && !failing:
			log.printf("cannot watch the lease: %v; trying again", err)
		case err == nil && failing:
			log.printf("watching the lease again")
		}
		failing = err != nil
	}
}

// forwardSignals reports signals as events, except a SIGHUP that this process
// was started to ignore (nohup).
func (d *driver) forwardSignals(ctx context.Context) func() {
	list := []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, list...)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-signals:
				d.report(ctx, core.Signal{Number: s.(syscall.Signal)})
			}
		}
	}()
	return func() { signal.Stop(signals) }
}
