// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

// Command cluster starts a real Kubernetes for trying and testing Leasehold, breaks
// parts of it on request, and removes it again. Run it without arguments for help.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"leasehold.dev/test/cluster"
)

// command is one verb of the command line.
type command struct {
	name  string
	usage string
	help  string
	run   func(ctx context.Context, env *environment, args []string) error
}

// environment is what commands get from the outside.
type environment struct {
	stdout, stderr io.Writer
	stdin          io.Reader
}

// passedOn is the exit status of a command that was run for the caller, who has
// seen what it had to say.
type passedOn int

func (p passedOn) Error() string { return fmt.Sprintf("command ended with status %d", int(p)) }

var errUsage = errors.New("wrong usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, &environment{stdout: os.Stdout, stderr: os.Stderr, stdin: os.Stdin}, os.Args[1:])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, env *environment, args []string) int {
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		printHelp(env.stdout)
		return 0
	}
	for _, cmd := range commands() {
		words := strings.Fields(cmd.name)
		if len(args) >= len(words) && strings.Join(args[:len(words)], " ") == cmd.name {
			return exitCode(env, cmd, cmd.run(ctx, env, args[len(words):]))
		}
	}
	_, _ = fmt.Fprintf(env.stderr, "cluster: unknown command %q: run it without arguments for help\n", args[0])
	return 2
}

func exitCode(env *environment, cmd command, err error) int {
	var exit passedOn
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &exit):
		return int(exit)
	case errors.Is(err, errUsage):
		_, _ = fmt.Fprintf(env.stderr, "cluster: %v\nusage: cluster %s %s\n", err, cmd.name, cmd.usage)
		return 2
	}
	_, _ = fmt.Fprintf(env.stderr, "cluster: %v\n", err)
	return 1
}

func printHelp(w io.Writer) {
	_, _ = fmt.Fprint(w, "A real Kubernetes from Go modules.\n\nusage: cluster COMMAND [--name NAME] …\n\n")
	for _, cmd := range commands() {
		_, _ = fmt.Fprintf(w, "  %-58s %s\n", strings.TrimSpace(cmd.name+" "+cmd.usage), cmd.help)
	}
}

// options are the flags that several commands share.
type options struct {
	cluster.Config
	set *flag.FlagSet
}

func newOptions(env *environment, name string) *options {
	o := &options{set: flag.NewFlagSet(name, flag.ContinueOnError)}
	o.set.SetOutput(env.stderr)
	o.Log = env.stderr
	o.set.StringVar(&o.Name, "name", "", "tells clusters apart (default dev)")
	return o
}

// parse takes flags before, between and after operands; what follows "--" it takes
// as it is.
func (o *options) parse(args []string, least, most int) ([]string, error) {
	var operands, literal []string
	if i := slices.Index(args, "--"); i >= 0 {
		args, literal = args[:i], args[i+1:]
	}
	for {
		if err := o.set.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return nil, err
			}
			return nil, fmt.Errorf("%w: %w", errUsage, err)
		}
		rest := o.set.Args()
		if len(rest) == 0 {
			break
		}
		operands, args = append(operands, rest[0]), rest[1:]
	}
	operands = append(operands, literal...)
	if len(operands) < least || (most >= 0 && len(operands) > most) {
		return nil, fmt.Errorf("%w: %d operands given", errUsage, len(operands))
	}
	return operands, nil
}
