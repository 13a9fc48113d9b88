// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"leasehold.dev/test/cluster"
	"leasehold.dev/test/cluster/image"
)

func imagesImport(ctx context.Context, env *environment, args []string) error {
	c, archives, err := opened(env, "images import", args, 1, -1)
	if err != nil {
		return err
	}
	return c.ImportImages(ctx, archives...)
}

func makeImage(_ context.Context, env *environment, args []string) error {
	o := newOptions(env, "image")
	var spec image.Spec
	out := o.set.String("out", "", "archive to write")
	o.set.StringVar(&spec.Ref, "ref", "", "name of the image, with registry and tag")
	o.set.StringVar(&spec.User, "user", "65532", "user to run as")
	o.set.StringVar(&spec.WorkingDir, "workdir", "", "directory to run in")
	o.set.StringVar(&spec.Architecture, "arch", "", "architecture (default this machine's)")
	o.set.Var((*list)(&spec.Entrypoint), "entrypoint", "program to run; repeat for its arguments")
	o.set.Var((*list)(&spec.Env), "env", "variable NAME=VALUE; repeat for more")
	operands, err := o.parse(args, 1, -1)
	if err != nil {
		return err
	}
	if *out == "" || spec.Ref == "" {
		return fmt.Errorf("%w: --out and --ref must be given", errUsage)
	}
	for _, operand := range operands {
		source, path, found := strings.Cut(operand, ":")
		if !found {
			return fmt.Errorf("%w: name a file as FILE:PATH, got %q", errUsage, operand)
		}
		spec.Files = append(spec.Files, image.File{Source: source, Path: path})
	}
	return image.Save(*out, spec)
}

// list is a flag that may be given several times.
type list []string

func (l *list) String() string { return strings.Join(*l, " ") }

func (l *list) Set(value string) error {
	*l = append(*l, value)
	return nil
}

func forward(ctx context.Context, env *environment, args []string) error {
	c, operands, err := opened(env, "forward", args, 1, 1)
	if err != nil {
		return err
	}
	local, err := c.Forward(ctx, operands[0])
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(env.stdout, local)
	return err
}

func expose(ctx context.Context, env *environment, args []string) error {
	c, operands, err := opened(env, "expose", args, 2, 2)
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(operands[0])
	if err != nil {
		return fmt.Errorf("%w: port %q is no number", errUsage, operands[0])
	}
	address, err := c.Expose(ctx, port, operands[1])
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(env.stdout, address)
	return err
}

func execHost(ctx context.Context, env *environment, args []string) error {
	c, operands, err := opened(env, "exec-host", args, 2, -1)
	if err != nil {
		return err
	}
	return pass(ctx, env, c, operands[0], operands[1:])
}

func execControl(ctx context.Context, env *environment, args []string) error {
	c, operands, err := opened(env, "exec-control", args, 1, -1)
	if err != nil {
		return err
	}
	return pass(ctx, env, c, "control", operands)
}

// pass runs a command as if the caller had, with its own exit status.
func pass(ctx context.Context, env *environment, c *cluster.Cluster, machine string, args []string) error {
	cmd, err := c.Command(ctx, machine, args...)
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = env.stdin, env.stdout, env.stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return passedOn(exit.ExitCode())
	}
	return err
}
