// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// Kubectl runs kubectl as an administrator and returns what it printed.
func (s *Server) Kubectl(ctx context.Context, args ...string) (_ string, err error) {
	file, err := os.CreateTemp("", "kubeconfig-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	_, err = file.Write(s.environment.KubeConfig)
	if err := errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, s.environment.ControlPlane.KubectlPath,
		append([]string{"--kubeconfig", file.Name()}, args...)...)
	out, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %v: %w\n%s", args, err, out)
	}
	return string(out), nil
}
