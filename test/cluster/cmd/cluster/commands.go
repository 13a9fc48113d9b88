// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"leasehold.dev/test/cluster"
)

func commands() []command {
	return []command{
		{"control-plane up", "", "start etcd and an API server on loopback (any user)", controlPlaneUp},
		{"control-plane down", "", "end them and remove their data", controlPlaneDown},
		{"control-plane status", "", "tell whether they run", controlPlaneStatus},
		{"control-plane env", "", "print KUBECONFIG and KUBEBUILDER_ASSETS for eval", controlPlaneEnv},
		{"up", "[--nodes 2]", "start a cluster with nodes (root on Linux)", up},
		{"down", "", "end it and remove all that it made", down},
		{"status", "", "tell what runs and whether it is healthy", status},
		{"smoke", "", "try all features and faults on the running cluster", smokeTest},
		{"kubeconfig", "", "print the path of its kubeconfig", kubeconfig},
		{"images import", "ARCHIVE...", "bring image archives to every node", imagesImport},
		{"image", "--out FILE --ref REF [...] FILE:PATH...", "make an image archive out of static programs", makeImage},
		{"forward", "ADDRESS:PORT", "reach an address of the cluster at a port of loopback", forward},
		{"expose", "PORT LOOPBACK:PORT", "let pods reach a server of loopback", expose},
		{"exec-host", "NODE -- COMMAND...", "run a command on a node", execHost},
		{"exec-control", "-- COMMAND...", "run a command in the network of the control plane", execControl},
		{"freeze", "NODE | NAMESPACE/POD[/CONTAINER]", "stop its processes in the midst of what they do", freeze},
		{"thaw", "NODE | NAMESPACE/POD[/CONTAINER]", "let them run on", thaw},
		{"cut", "[--all] NODE", "cut a node and its pods off from the API server", cut},
		{"heal", "NODE", "join it again", heal},
		{"stop", "NODE | PROGRAM", "kill a node's kubelet, or a program of status", stop},
		{"start", "NODE | PROGRAM", "start it again", start},
		{"signal", "NODE | PROGRAM SIGNAL", "send it a signal, such as STOP and CONT", sendSignal},
		{"kill", "[--signal KILL] NAMESPACE/POD[/CONTAINER]", "signal the first process of containers", kill},
		{"store save", "DIRECTORY", "copy the data of etcd (the API server pauses)", storeSave},
		{"store restore", "DIRECTORY", "put an older copy back, as a restored backup would", storeRestore},
		{"assets", "", "print the directory for envtest's KUBEBUILDER_ASSETS", assets},
		{"tool", "NAME", "print the path of kubectl, helm or another program", tool},
	}
}

func controlPlaneUp(ctx context.Context, env *environment, args []string) error {
	o := newOptions(env, "control-plane up")
	if _, err := o.parse(args, 0, 0); err != nil {
		return err
	}
	c, err := cluster.UpControlPlane(ctx, o.Config)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.stdout, "export KUBECONFIG=%s\n", c.Kubeconfig())
	return err
}

func controlPlaneDown(ctx context.Context, env *environment, args []string) error {
	o := newOptions(env, "control-plane down")
	if _, err := o.parse(args, 0, 0); err != nil {
		return err
	}
	return cluster.DownControlPlane(ctx, o.Config)
}

func controlPlaneStatus(ctx context.Context, env *environment, args []string) error {
	o := newOptions(env, "control-plane status")
	if _, err := o.parse(args, 0, 0); err != nil {
		return err
	}
	c, err := cluster.OpenControlPlane(o.Config)
	if err != nil {
		return err
	}
	return c.Status(ctx, env.stdout)
}

func controlPlaneEnv(ctx context.Context, env *environment, args []string) error {
	o := newOptions(env, "control-plane env")
	if _, err := o.parse(args, 0, 0); err != nil {
		return err
	}
	c, err := cluster.OpenControlPlane(o.Config)
	if err != nil {
		return err
	}
	dir, err := cluster.Assets(ctx, env.stderr)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.stdout, "export KUBECONFIG=%s\nexport KUBEBUILDER_ASSETS=%s\n", c.Kubeconfig(), dir)
	return err
}

func assets(ctx context.Context, env *environment, args []string) error {
	o := newOptions(env, "assets")
	if _, err := o.parse(args, 0, 0); err != nil {
		return err
	}
	dir, err := cluster.Assets(ctx, env.stderr)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(env.stdout, dir)
	return err
}

func tool(ctx context.Context, env *environment, args []string) error {
	o := newOptions(env, "tool")
	names, err := o.parse(args, 1, 1)
	if err != nil {
		return err
	}
	path, err := cluster.Tool(ctx, env.stderr, names[0])
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(env.stdout, path)
	return err
}
