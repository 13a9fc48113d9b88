// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"leasehold.dev/test/cluster/image"
)

// The images of this tree.
const (
	ManagerImage = "leasehold.dev/manager:dev"
	AgentImage   = "leasehold.dev/agent:dev"
	LedgerImage  = "leasehold.dev/example-ledger:dev"
)

// uid is a user that owns nothing.
const uid = "65532"

var images = []struct {
	program string // A main package of this tree.
	at      string // Where the image has it.
	spec    image.Spec
}{
	{"./cmd/manager", "/manager", image.Spec{Ref: ManagerImage, Entrypoint: []string{"/manager"}, User: uid}},
	{"./cmd/agent", "/agent", image.Spec{Ref: AgentImage, Entrypoint: []string{"/agent"}, User: uid}},
	{"./examples/ledger", "/ledger", image.Spec{Ref: LedgerImage, Entrypoint: []string{"/ledger"}, User: uid}},
}

// LoadImages builds the images from static programs and imports them on every
// node. It returns a digest of the manager's.
func (h *Harness) LoadImages(ctx context.Context) (string, error) {
	var archives []string
	for _, i := range images {
		archive, err := h.BuildImage(ctx, i.program, i.at, i.spec)
		if err != nil {
			return "", err
		}
		archives = append(archives, archive)
	}
	if err := h.ImportImages(ctx, archives...); err != nil {
		return "", err
	}
	manager, err := os.ReadFile(archives[0])
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(manager)
	return hex.EncodeToString(sum[:8]), nil
}

// BuildImage builds one program and its image's archive.
func (h *Harness) BuildImage(ctx context.Context, program, at string, spec image.Spec) (string, error) {
	dir := filepath.Join(h.Dir(), "images")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	binary, err := h.Build(ctx, dir, program)
	if err != nil {
		return "", err
	}
	spec.Files = append(spec.Files, image.File{Source: binary, Path: at})
	archive := binary + ".tar"
	if err := image.Save(archive, spec); err != nil {
		return "", fmt.Errorf("image %s: %w", spec.Ref, err)
	}
	return archive, nil
}

// Build builds a static program of this tree into dir.
func (h *Harness) Build(ctx context.Context, dir, program string) (string, error) {
	binary := filepath.Join(dir, filepath.Base(program))
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, program)
	cmd.Dir = h.Root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", program, err, out)
	}
	return binary, nil
}
