// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"

	"leasehold.dev/test/cluster"
)

func freeze(ctx context.Context, env *environment, args []string) error {
	return onTarget(ctx, env, "freeze", args, (*cluster.Cluster).FreezeNode, (*cluster.Cluster).Freeze)
}

func thaw(ctx context.Context, env *environment, args []string) error {
	return onTarget(ctx, env, "thaw", args, (*cluster.Cluster).ThawNode, (*cluster.Cluster).Thaw)
}

// onTarget tells a node from a pod by the slash.
func onTarget(ctx context.Context, env *environment, name string, args []string,
	onNode func(*cluster.Cluster, context.Context, string) error,
	onPod func(*cluster.Cluster, context.Context, string, string, string) error,
) error {
	c, targets, err := opened(env, name, args, 1, 1)
	if err != nil {
		return err
	}
	if !strings.Contains(targets[0], "/") {
		return onNode(c, ctx, targets[0])
	}
	namespace, pod, container, err := splitTarget(targets[0])
	if err != nil {
		return err
	}
	return onPod(c, ctx, namespace, pod, container)
}

// splitTarget reads NAMESPACE/POD[/CONTAINER].
func splitTarget(target string) (namespace, pod, container string, err error) {
	parts := strings.Split(target, "/")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || parts[1] == "" {
		return "", "", "", fmt.Errorf("%w: name a pod as NAMESPACE/POD or NAMESPACE/POD/CONTAINER", errUsage)
	}
	return parts[0], parts[1], strings.Join(parts[2:], ""), nil
}

func cut(ctx context.Context, env *environment, args []string) error {
	o := newOptions(env, "cut")
	all := o.set.Bool("all", false, "from everything, not only the API server")
	operands, err := o.parse(args, 1, 1)
	if err != nil {
		return err
	}
	c, err := cluster.Open(o.Config)
	if err != nil {
		return err
	}
	mode := cluster.CutAPI
	if *all {
		mode = cluster.CutAll
	}
	return c.Cut(ctx, operands[0], mode)
}

func heal(ctx context.Context, env *environment, args []string) error {
	return onName(ctx, env, "heal", args, (*cluster.Cluster).Heal)
}

func stop(ctx context.Context, env *environment, args []string) error {
	return onName(ctx, env, "stop", args, (*cluster.Cluster).Stop)
}

func start(ctx context.Context, env *environment, args []string) error {
	return onName(ctx, env, "start", args, (*cluster.Cluster).Start)
}

func storeSave(ctx context.Context, env *environment, args []string) error {
	return onName(ctx, env, "store save", args, (*cluster.Cluster).SaveStore)
}

func storeRestore(ctx context.Context, env *environment, args []string) error {
	return onName(ctx, env, "store restore", args, (*cluster.Cluster).RestoreStore)
}

func onName(ctx context.Context, env *environment, name string, args []string, do func(*cluster.Cluster, context.Context, string) error) error {
	c, operands, err := opened(env, name, args, 1, 1)
	if err != nil {
		return err
	}
	return do(c, ctx, operands[0])
}

// signals are the ones that tests have use for and every system has.
var signals = map[string]os.Signal{
	"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM,
}

func signalNamed(name string) (os.Signal, error) {
	if sig, ok := signals[strings.TrimPrefix(strings.ToUpper(name), "SIG")]; ok {
		return sig, nil
	}
	return nil, fmt.Errorf("%w: signal %q is not known", errUsage, name)
}

func sendSignal(_ context.Context, env *environment, args []string) error {
	c, operands, err := opened(env, "signal", args, 2, 2)
	if err != nil {
		return err
	}
	sig, err := signalNamed(operands[1])
	if err != nil {
		return err
	}
	return c.Signal(operands[0], sig)
}

func kill(ctx context.Context, env *environment, args []string) error {
	o := newOptions(env, "kill")
	name := o.set.String("signal", "KILL", "signal to send")
	operands, err := o.parse(args, 1, 1)
	if err != nil {
		return err
	}
	sig, err := signalNamed(*name)
	if err != nil {
		return err
	}
	namespace, pod, container, err := splitTarget(operands[0])
	if err != nil {
		return err
	}
	c, err := cluster.Open(o.Config)
	if err != nil {
		return err
	}
	return c.Kill(ctx, namespace, pod, container, sig)
}
