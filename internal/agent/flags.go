// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package agent

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/internal/holder/message"
)

// options of "agent run".
type options struct {
	leaseName  string
	namespace  string
	podName    string
	podUID     string
	container  string
	stopGrace  time.Duration
	release    time.Duration
	message    string
	kubeconfig string
	command    []string
}

const usage = `Usage: agent run [flags] -- command [args…]

Runs the command while this pod holds the lease.

Exit status: the command's own, or 128+n when signal n killed it, and
  64       the command line or the environment is not usable
  69       no API server is configured, or a success could not be made known
  71       the operating system refused something that the agent needs
  75       the term was lost before the command ended
  126, 127 the command cannot be executed, or does not exist
  128+n    signal n ended the agent before the command was started

Flags:
`

// parse reads the arguments after "run". getenv gives the defaults that the pod
// spec sets. flag.ErrHelp: the usage was asked for, and written to out.
func parse(args []string, getenv func(string) string, out io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("agent run", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&o.leaseName, "lease", getenv(v1alpha1.EnvLeaseName), "name of the Lease (env "+v1alpha1.EnvLeaseName+")")
	f.StringVar(&o.namespace, "namespace", getenv(v1alpha1.EnvLeaseNamespace), "namespace of the Lease (env "+v1alpha1.EnvLeaseNamespace+")")
	f.StringVar(&o.podName, "pod-name", getenv(v1alpha1.EnvPodName), "name of this pod (env "+v1alpha1.EnvPodName+")")
	f.StringVar(&o.podUID, "pod-uid", getenv(v1alpha1.EnvPodUID), "UID of this pod (env "+v1alpha1.EnvPodUID+")")
	f.StringVar(&o.container, "container", getenv(v1alpha1.EnvContainer), "name of this container (env "+v1alpha1.EnvContainer+")")
	f.DurationVar(&o.stopGrace, "stop-grace", 30*time.Second, "how long the command may take to stop when it is asked to; then it is killed")
	f.DurationVar(&o.release, "release-timeout", 30*time.Second, "how long to try to release the lease after a command that did not succeed, or once told to stop; a success is reported however long it takes")
	f.StringVar(&o.message, "termination-message-path", message.DefaultPath, "the container's termination message file")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file; default: the pod's service account")
	err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		f.SetOutput(out)
		_, _ = io.WriteString(out, usage)
		f.PrintDefaults()
		return o, err
	}
	if err != nil {
		return o, err
	}
	o.command = f.Args()
	return o, o.validate()
}

func (o options) validate() error {
	required := []struct{ value, flag, env string }{
		{o.leaseName, "lease", v1alpha1.EnvLeaseName},
		{o.namespace, "namespace", v1alpha1.EnvLeaseNamespace},
		{o.podName, "pod-name", v1alpha1.EnvPodName},
		{o.podUID, "pod-uid", v1alpha1.EnvPodUID},
		{o.container, "container", v1alpha1.EnvContainer},
	}
	for _, r := range required {
		if r.value == "" {
			return fmt.Errorf("the %s is not known: set --%s or %s", r.flag, r.flag, r.env)
		}
	}
	switch {
	case o.stopGrace <= 0:
		return fmt.Errorf("--stop-grace is %s: want more than 0", o.stopGrace)
	case o.release <= 0:
		return fmt.Errorf("--release-timeout is %s: want more than 0", o.release)
	case len(o.command) == 0:
		return errors.New("no command: give it after --, as in: agent run -- command args…")
	}
	return nil
}
