// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package pgtest runs private PostgreSQL servers for tests and demonstrations:
// a fresh data directory, its own socket, nothing shared with a server that the
// machine may run, and nothing left behind. The server's program must be
// installed; as root, Start installs the distribution's package itself.
//
// Durability is switched off, so a server does not survive a crash of the
// machine.
package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// superuser owns the cluster and is whom the DSN connects as.
	superuser = "postgres"
	// socketPort names the socket file of a server without TCP.
	socketPort = 5432
	// pollEvery is how often Start looks whether the server answers.
	pollEvery = 20 * time.Millisecond
	// stopGrace bounds an orderly shutdown; then the server is killed.
	stopGrace = 10 * time.Second
	// logTail is how many bytes of the server's log an error of Start quotes.
	logTail = 2000
)

// Options of a server. The zero value gives a server that is reached through a
// Unix socket only.
type Options struct {
	// ListenAddr is an IP address to serve TCP on, for clients in other network
	// namespaces. Clients there need the password in the DSN. Default: none.
	ListenAddr string
	// Port for ListenAddr. Default: a free one.
	Port int
	// Dir takes data, socket and log, and must be short, since the path of a
	// socket is limited to about 100 bytes. It is created if missing and must
	// hold no server yet. Stop leaves it. Default: a temporary directory, which
	// Stop removes.
	Dir string
	// Settings are server parameters, as in postgresql.conf.
	Settings map[string]string
}

// Server is a running PostgreSQL.
type Server struct {
	opts     Options
	dir      string
	ownDir   bool
	password string
	cmd      *exec.Cmd
	lifeline io.Closer
	exited   chan struct{} // closed once the server is gone
}

// Start creates and starts a server, and returns when it answers. The server
// outlives ctx, which bounds only the start; it ends with Stop or with this
// process, however that ends.
func Start(ctx context.Context, opts Options) (*Server, error) {
	bin, err := findPrograms(ctx)
	if err != nil {
		return nil, err
	}
	s := &Server{opts: opts, password: rand.Text(), exited: make(chan struct{})}
	if err := s.start(ctx, bin); err != nil {
		return nil, errors.Join(fmt.Errorf("start PostgreSQL: %w", err), s.Stop())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, bin programs) error {
	account, err := serverAccount()
	if err != nil {
		return err
	}
	if err := s.makeDir(account); err != nil {
		return err
	}
	if err := s.initdb(ctx, bin.initdb, account); err != nil {
		return err
	}
	if s.opts.ListenAddr != "" && s.opts.Port == 0 {
		if s.opts.Port, err = freePort(ctx, s.opts.ListenAddr); err != nil {
			return err
		}
	}
	if err := s.launch(bin.postgres, account); err != nil {
		return err
	}
	return s.waitReady(ctx)
}

// DSN is the connection URL of the superuser: over TCP if the server has a
// ListenAddr, else over the socket.
func (s *Server) DSN() string {
	if s.opts.ListenAddr == "" {
		return s.SocketDSN()
	}
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(superuser, s.password), Path: "/" + superuser,
		Host: net.JoinHostPort(s.opts.ListenAddr, s.port()),
	}
	return u.String()
}

// SocketDSN is the connection URL over the Unix socket, which needs no
// password.
func (s *Server) SocketDSN() string {
	q := url.Values{"host": {s.dir}, "port": {s.port()}}
	u := url.URL{Scheme: "postgres", User: url.User(superuser), Path: "/" + superuser, RawQuery: q.Encode()}
	return u.String()
}

// SocketPath is the server's Unix socket, for a proxy in front of it.
func (s *Server) SocketPath() string {
	return filepath.Join(s.dir, ".s.PGSQL."+s.port())
}

// port is one for both ways in: PostgreSQL names its socket after it.
func (s *Server) port() string {
	if s.opts.ListenAddr == "" {
		return strconv.Itoa(socketPort)
	}
	return strconv.Itoa(s.opts.Port)
}

// Stop ends the server and removes its temporary directory. It may be called
// more than once, also on a server that failed to start.
func (s *Server) Stop() error {
	var err error
	if s.cmd != nil {
		err = s.shutdown()
		s.cmd = nil
	}
	if s.ownDir {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

func (s *Server) shutdown() error {
	_ = s.lifeline.Close() // the supervisor sees the end of its input and stops the server
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-s.exited:
		return nil
	case <-timer.C:
	}
	// The group is the supervisor's own (Setpgid), so nothing else is hit.
	if err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill PostgreSQL, which did not stop within %v: %w", stopGrace, err)
	}
	<-s.exited
	return nil
}

func (s *Server) makeDir(account *user.User) error {
	if s.dir = s.opts.Dir; s.dir == "" {
		dir, err := os.MkdirTemp("", "pg-")
		if err != nil {
			return err
		}
		s.dir, s.ownDir = dir, true
	} else if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	if account == nil {
		return nil
	}
	uid, gid, err := ids(account)
	if err != nil {
		return err
	}
	return os.Chown(s.dir, uid, gid)
}

func (s *Server) initdb(ctx context.Context, program string, account *user.User) error {
	pwfile := filepath.Join(s.dir, "password")
	if err := os.WriteFile(pwfile, []byte(s.password), 0o644); err != nil { //nolint:gosec // The directory is private.
		return err
	}
	defer func() { _ = os.Remove(pwfile) }()
	cmd := exec.CommandContext(ctx, program, "--pgdata", s.data(), "--username", superuser, "--pwfile", pwfile,
		"--auth-local", "trust", "--auth-host", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync")
	if err := runAs(cmd, account); err != nil {
		return err
	}
	cmd.Dir = s.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, tail(out))
	}
	return s.allowHosts()
}

// allowHosts admits clients of any address with the password; initdb admits
// only those of the loopback.
func (s *Server) allowHosts() error {
	f, err := os.OpenFile(filepath.Join(s.data(), "pg_hba.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("host all all all scram-sha-256\n")
	return errors.Join(err, f.Close())
}

// supervisor runs the server as its child and stops it when its
// descriptor 3 ends, which is when this process closes it or dies: so not even a killed
// test leaves a server, nor the temporary directory named first. It ends when
// the server does.
const supervisor = `temporary=$1; shift
"$@" </dev/null 3<&- & server=$!
{ read -r _; : > stopped; kill -INT $server; } 2>/dev/null <&3 & watch=$!
wait $server; status=$?
kill $watch 2>/dev/null
if [ -n "$temporary" ] && [ -e stopped ]; then rm -rf "$temporary" 2>/dev/null; fi
exit $status`

func (s *Server) launch(program string, account *user.User) error {
	temporary := ""
	if s.ownDir {
		temporary = s.dir
	}
	args := []string{"-c", supervisor, "pgtest", temporary, program, "-D", s.data()}
	for name, value := range s.settings() {
		args = append(args, "-c", name+"="+value)
	}
	cmd := exec.Command("/bin/sh", args...)
	if err := runAs(cmd, account); err != nil {
		return err
	}
	cmd.Dir = s.dir
	ours, theirs, err := s.openFiles()
	if err != nil {
		return err
	}
	defer closeAll(theirs)
	cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = theirs[:1], theirs[1], theirs[1]
	if err := cmd.Start(); err != nil {
		return errors.Join(err, ours.Close())
	}
	s.cmd, s.lifeline = cmd, ours
	go func() {
		_ = cmd.Wait() // the log has the reason, and waitReady quotes it
		close(s.exited)
	}()
	return nil
}

// openFiles returns our end of the supervisor's lifeline, and its end and the
// server's log.
func (s *Server) openFiles() (ours *os.File, theirs []*os.File, err error) {
	log, err := os.Create(s.logFile())
	if err != nil {
		return nil, nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, log.Close())
	}
	return w, []*os.File{r, log}, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

func (s *Server) settings() map[string]string {
	all := map[string]string{
		"listen_addresses":        s.opts.ListenAddr,
		"port":                    s.port(),
		"unix_socket_directories": s.dir,
		"fsync":                   "off",
		"full_page_writes":        "off",
		"shared_buffers":          "32MB",
	}
	maps.Copy(all, s.opts.Settings)
	return all
}

func (s *Server) waitReady(ctx context.Context) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		conn, err := pgx.Connect(ctx, s.DSN())
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.exited:
			return fmt.Errorf("the server ended at once: %s", s.readLog())
		case <-ctx.Done():
			return fmt.Errorf("the server does not answer: %w (%w): %s", ctx.Err(), err, s.readLog())
		case <-ticker.C:
		}
	}
}

func (s *Server) data() string    { return filepath.Join(s.dir, "data") }
func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

func (s *Server) readLog() []byte {
	log, err := os.ReadFile(s.logFile())
	if err != nil {
		return []byte(err.Error())
	}
	return tail(log)
}

func tail(b []byte) []byte { return slices.Clone(b[max(0, len(b)-logTail):]) }

func freePort(ctx context.Context, addr string) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", net.JoinHostPort(addr, "0"))
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}
