// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// The manager runs Leasehold's controllers.
package main

import (
	"flag"
	"os"

	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"

	"leasehold.dev/internal/manager"
)

func main() {
	var options manager.Options
	options.Bind(flag.CommandLine)
	logging := textlogger.NewConfig(textlogger.Verbosity(2))
	logging.AddFlags(flag.CommandLine)
	flag.Parse()
	options.Logger = textlogger.NewLogger(logging)

	ctx := ctrl.SetupSignalHandler()
	config, err := ctrl.GetConfig()
	if err == nil {
		err = manager.Run(ctx, config, options)
	}
	if err != nil {
		options.Logger.Error(err, "The manager has stopped")
		os.Exit(1)
	}
}
