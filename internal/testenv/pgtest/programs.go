// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package pgtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// packageName is the distribution's package with the server's programs.
const packageName = "postgresql"

// programs are the paths of what a server needs.
type programs struct{ initdb, postgres string }

// findPrograms looks in PATH and where Debian keeps them, out of PATH. As root
// it installs the package when they are nowhere.
func findPrograms(ctx context.Context) (programs, error) {
	if p, ok := lookPrograms(os.Getenv("PATH")); ok {
		return p, nil
	}
	if os.Geteuid() != 0 {
		return programs{}, fmt.Errorf("PostgreSQL's initdb and postgres are not installed: install the package %q, "+
			"or put the directory that has them into PATH", packageName)
	}
	if err := install(ctx); err != nil {
		return programs{}, err
	}
	if p, ok := lookPrograms(os.Getenv("PATH")); ok {
		return p, nil
	}
	return programs{}, fmt.Errorf("the package %q is installed and yet has no initdb and postgres in PATH or %s", packageName, debianDirs)
}

const debianDirs = "/usr/lib/postgresql/*/bin"

func lookPrograms(path string) (programs, bool) {
	dirs := filepath.SplitList(path)
	debian, _ := filepath.Glob(debianDirs) // the only error is a bad pattern
	for _, dir := range append(dirs, debian...) {
		p := programs{initdb: filepath.Join(dir, "initdb"), postgres: filepath.Join(dir, "postgres")}
		if executable(p.initdb) && executable(p.postgres) {
			return p, true
		}
	}
	return programs{}, false
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func install(ctx context.Context) error {
	for _, args := range [][]string{{"update"}, {"install", "-y", "--no-install-recommends", packageName}} {
		cmd := exec.CommandContext(ctx, "apt-get", args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("PostgreSQL is not installed and apt-get %s did not work; install the package %q: %w: %s",
				args[0], packageName, err, tail(out))
		}
	}
	return nil
}

// serverAccount is whom the server runs as: nil for the present user, and for
// root, under whom PostgreSQL refuses to run, the account of its package.
func serverAccount() (*user.User, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	account, err := user.Lookup(superuser)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root, and its own account is missing; install the package %q: %w", packageName, err)
	}
	return account, nil
}

// runAs makes cmd run as account, apart from our process group, so that an
// interrupt typed at the terminal reaches us alone and we stop the server.
func runAs(cmd *exec.Cmd, account *user.User) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if account == nil {
		return nil
	}
	uid, gid, err := ids(account)
	if err != nil {
		return err
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)} //nolint:gosec // Ids of a local account.
	return nil
}

func ids(account *user.User) (uid, gid int, err error) {
	if uid, err = strconv.Atoi(account.Uid); err == nil {
		gid, err = strconv.Atoi(account.Gid)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("ids of account %s: %w", account.Username, err)
	}
	return uid, gid, nil
}
