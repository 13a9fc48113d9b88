// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// The crash manager is the manager with a fuse: it ends, with status 137 and
// without a word, right after its n-th write was committed and before it has
// seen the reply. Nothing that it meant to do next is done.
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"

	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"

	"leasehold.dev/internal/manager"
)

// codeCrashed is what a shell shows of a process that was killed.
const codeCrashed = 137

func main() {
	var options manager.Options
	options.Bind(flag.CommandLine)
	after := flag.Int64("crash-after", 1, "the write after which to end; 0: never")
	logging := textlogger.NewConfig(textlogger.Verbosity(2))
	logging.AddFlags(flag.CommandLine)
	flag.Parse()
	options.Logger = textlogger.NewLogger(logging)

	ctx := ctrl.SetupSignalHandler()
	config, err := ctrl.GetConfig()
	if err == nil {
		config.Wrap(newFuse(*after))
		err = manager.Run(ctx, config, options)
	}
	if err != nil {
		options.Logger.Error(err, "The manager has stopped")
		os.Exit(1)
	}
}

// newFuse counts over all clients of the process.
func newFuse(after int64) func(http.RoundTripper) http.RoundTripper {
	var left atomic.Int64
	left.Store(after)
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if err == nil && response.StatusCode < 300 && counts(r) && left.Add(-1) == 0 {
				fmt.Fprintln(os.Stderr, "CRASHED AFTER", r.Method, r.URL.Path)
				os.Exit(codeCrashed)
			}
			return response, err
		})
	}
}

// counts leaves out what decides nothing: events, and the managers' own lease.
func counts(r *http.Request) bool {
	switch r.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return !strings.Contains(r.URL.Path, "/events") && !strings.HasSuffix(r.URL.Path, "/leases/leasehold-manager")
	}
	return false
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
