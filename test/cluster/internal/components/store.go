// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package components

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"time"

	"leasehold.dev/test/cluster/internal/flock"
)

// Store finds built programs in the cache and builds what is missing.
type Store struct {
	// Root is the directory of the leasehold.dev module.
	Root string
	// Cache is where built programs are kept.
	Cache string
	// Log hears about builds, which can take minutes.
	Log io.Writer
}

// NewStore finds the module that the working directory belongs to and the user's cache.
func NewStore(ctx context.Context, log io.Writer) (*Store, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "leasehold.dev")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("module leasehold.dev not found from here: run inside its clone: %w: %s", err, stderr.String())
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("cache directory for built programs: %w", err)
	}
	root := strings.TrimSpace(stdout.String())
	return &Store{Root: root, Cache: filepath.Join(cache, "leasehold", "components"), Log: log}, nil
}

// Build returns the path of each named program, having built those that were missing.
func (s *Store) Build(ctx context.Context, names ...string) (map[string]string, error) {
	wanted, err := byFamily(names)
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	for _, f := range families() {
		programs := wanted[f.name]
		if len(programs) == 0 {
			continue
		}
		if err := s.buildFamily(ctx, f, programs, paths); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// Cached tells whether a program is there already.
func (s *Store) Cached(name string) (bool, error) {
	f, err := familyOf(name)
	if err != nil {
		return false, err
	}
	r, err := s.recipe(f)
	if err != nil {
		return false, err
	}
	return len(r.missing([]string{name})) == 0, nil
}

func (s *Store) buildFamily(ctx context.Context, f family, programs []string, paths map[string]string) error {
	recipe, err := s.recipe(f)
	if err != nil {
		return err
	}
	for _, name := range programs {
		paths[name] = recipe.path(name)
	}
	if len(recipe.missing(programs)) == 0 {
		return nil
	}
	if err := os.MkdirAll(recipe.output, 0o755); err != nil {
		return fmt.Errorf("cache of built programs: %w", err)
	}
	unlock, err := flock.Lock(ctx, recipe.output+".lock", func() {
		fmt.Fprintf(s.Log, "waiting for another build of %s\n", f.name)
	})
	if err != nil {
		return err
	}
	defer unlock()
	return s.compile(ctx, recipe, recipe.missing(programs))
}

// compile builds into a temporary directory first, so that a program in the cache is always whole.
func (s *Store) compile(ctx context.Context, r *recipe, programs []string) error {
	if len(programs) == 0 {
		return nil
	}
	sort.Strings(programs)
	fmt.Fprintf(s.Log, "building %s %s: %s (once; it can take minutes)\n", r.family.name, r.version, strings.Join(programs, ", "))
	started := time.Now()
	temporary, err := os.MkdirTemp(r.output, ".build-")
	if err != nil {
		return fmt.Errorf("directory to build in: %w", err)
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	cmd := r.command(ctx, temporary, programs)
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stderr, &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build of %s: %w\n%s", strings.Join(programs, ", "), err, stderr.String())
	}
	for _, name := range programs {
		built := filepath.Join(temporary, builtName(r.family.programs[name])+executableSuffix())
		if err := os.Rename(built, r.path(name)); err != nil {
			return fmt.Errorf("built program %s: %w", name, err)
		}
	}
	fmt.Fprintf(s.Log, "built %s in %s\n", r.family.name, time.Since(started).Round(time.Second))
	return nil
}

// recipe is a family at its pinned version together with the exact way of building it.
type recipe struct {
	family  family
	version string
	dir     string
	output  string
	flags   []string
	env     []string
}

func (s *Store) recipe(f family) (*recipe, error) {
	dir := filepath.Join(s.Root, "test", "cluster", "components", f.name)
	modfile, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return nil, fmt.Errorf("modfile of %s: %w", f.name, err)
	}
	sums, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		return nil, fmt.Errorf("checksums of %s: %w", f.name, err)
	}
	version, err := requiredVersion(modfile, f.module)
	if err != nil {
		return nil, err
	}
	r := &recipe{family: f, version: version, dir: dir, flags: buildFlags(f, version), env: buildEnv(f)}
	id := identity(string(modfile), string(sums), strings.Join(r.flags, " "), strings.Join(r.env, " "), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	r.output = filepath.Join(s.Cache, f.name+"-"+version+"-"+id)
	return r, nil
}

func buildFlags(f family, version string) []string {
	ldflags := []string{"-s", "-w"}
	if f.ldflags != nil {
		ldflags = append(ldflags, f.ldflags(version)...)
	}
	flags := []string{"-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags=" + strings.Join(ldflags, " ")}
	if f.tags != "" {
		flags = append(flags, "-tags="+f.tags)
	}
	return flags
}

func buildEnv(f family) []string {
	if f.cgo {
		return []string{"CGO_ENABLED=1", "GOWORK=off", "GOFLAGS="}
	}
	return []string{"CGO_ENABLED=0", "GOWORK=off", "GOFLAGS="}
}

func (r *recipe) path(name string) string {
	return filepath.Join(r.output, name+executableSuffix())
}

func (r *recipe) missing(programs []string) []string {
	var missing []string
	for _, name := range programs {
		if _, err := os.Stat(r.path(name)); err != nil {
			missing = append(missing, name)
		}
	}
	return missing
}

func (r *recipe) command(ctx context.Context, output string, programs []string) *exec.Cmd {
	args := append([]string{"build"}, r.flags...)
	args = append(args, "-o", output+string(filepath.Separator))
	for _, name := range programs {
		args = append(args, r.family.programs[name])
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), r.env...)
	return cmd
}

// builtName is what go build calls the program of a package: the last element of
// its path that is not a major version.
func builtName(pkg string) string {
	base := path.Base(pkg)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		return path.Base(path.Dir(pkg))
	}
	return base
}

func executableSuffix() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}

// requiredVersion reads the version of a module from the require lines of a modfile.
func requiredVersion(modfile []byte, module string) (string, error) {
	for line := range strings.Lines(string(modfile)) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 && fields[0] == module && strings.HasPrefix(fields[1], "v") {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("modfile does not require %s: add it with go get -tool", module)
}

func identity(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		_, _ = fmt.Fprintf(sum, "%d:%s\n", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}
