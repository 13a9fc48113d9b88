// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package mysqltest runs private MariaDB servers for tests: a fresh data
// directory, a Unix socket only, nothing shared with a server that the machine
// may run, and nothing left behind. The server's programs must be installed.
//
// Durability is switched off, so a server does not survive a crash of the
// machine.
package mysqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"

	"github.com/go-sql-driver/mysql"

	"leasehold.dev/internal/testenv/child"
)

// packageName is the distribution's package with the server's programs.
const packageName = "mariadb-server-core"

// Server is a running MariaDB.
type Server struct{ *child.Server }

// Start creates and starts a server, and returns when it answers. Settings are
// options of the server, without their dashes. The server outlives ctx, which
// bounds only the start; it ends with Stop or with this process.
func Start(ctx context.Context, settings ...string) (*Server, error) {
	base, err := child.New("my")
	if err != nil {
		return nil, err
	}
	s := &Server{base}
	if err := s.start(ctx, settings); err != nil {
		return nil, errors.Join(fmt.Errorf("start MariaDB: %w", err), s.Stop())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, settings []string) error {
	install, err := child.Find("mariadb-install-db", packageName)
	if err != nil {
		return err
	}
	if _, err := child.Find("my_print_defaults", "mariadb-client-core"); err != nil { // which that program calls
		return err
	}
	program, err := child.Find("mariadbd", packageName, "/usr/sbin")
	if err != nil {
		return err
	}
	account, err := user.Current()
	if err != nil {
		return err
	}
	// Servers that share a directory for temporary tables remove each other's.
	temporary := filepath.Join(s.Dir, "tmp")
	if err := os.Mkdir(temporary, 0o700); err != nil {
		return err
	}
	// The server runs as root only if told so.
	common := []string{"--no-defaults", "--user=" + account.Username,
		"--datadir=" + filepath.Join(s.Dir, "data"), "--tmpdir=" + temporary}
	cmd := exec.CommandContext(ctx, install, append(slices.Clone(common), "--auth-root-authentication-method=normal", "--skip-test-db")...)
	cmd.Dir = s.Dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mariadb-install-db: %w: %s", err, child.Tail(out))
	}
	args := append(slices.Clone(common), "--skip-networking", "--socket="+s.Socket(), "--pid-file="+filepath.Join(s.Dir, "pid"),
		"--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=16M", "--skip-log-bin")
	for _, setting := range settings {
		args = append(args, "--"+setting)
	}
	if err := s.Server.Start(nil, program, args...); err != nil {
		return err
	}
	return s.WaitReady(ctx, s.ping)
}

// Socket is the server's Unix socket.
func (s *Server) Socket() string { return filepath.Join(s.Dir, "socket") }

// Config connects as the administrator, who has no password. DBName "" is none.
func (s *Server) Config(database string) *mysql.Config {
	config := mysql.NewConfig()
	config.Net, config.Addr = "unix", s.Socket()
	config.User, config.DBName = "root", database
	config.Logger = &mysql.NopLogger{} // tests break connections
	return config
}

func (s *Server) ping(ctx context.Context) error {
	connector, err := mysql.NewConnector(s.Config(""))
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	return errors.Join(db.PingContext(ctx), db.Close())
}
