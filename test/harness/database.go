// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"

	"leasehold.dev/internal/testenv/pgtest"
	"leasehold.dev/test/cluster"
)

// databasePort is where pods find the database, at cluster.ServicesIP.
const databasePort = 5432

// Database is a PostgreSQL that pods can reach, and that lives as long as the
// cluster.
type Database struct {
	// PodURL is its URL within the cluster, HostURL for programs of the host.
	PodURL, HostURL string
}

// serveDatabase is the argument by which a program that uses this package runs
// the database instead, on the cluster's control machine.
const serveDatabase = "serve-database"

// ServeDatabase must be called first in main (or TestMain) of a program that
// calls StartDatabase. It does nothing, unless the program was started to be
// the database.
func ServeDatabase() {
	if len(os.Args) < 2 || os.Args[1] != serveDatabase {
		return
	}
	if err := runDatabase(); err != nil {
		fmt.Fprintln(os.Stderr, "database:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runDatabase() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	s, err := pgtest.Start(ctx, pgtest.Options{
		ListenAddr: cluster.ServicesIP, Port: databasePort,
		// A frozen worker keeps its connection; it must not keep a lock for ever.
		Settings: map[string]string{"idle_in_transaction_session_timeout": "10s"},
	})
	if err != nil {
		fmt.Println("error " + strconv.Quote(err.Error()))
		return err
	}
	fmt.Println("ready " + s.DSN())
	<-ctx.Done()
	return s.Stop()
}

// StartDatabase starts PostgreSQL on the cluster's control machine. Where the
// cluster was kept, and its database with it, that one is used again.
func (h *Harness) StartDatabase(ctx context.Context) (*Database, error) {
	if d := h.keptDatabase(ctx); d != nil {
		return d, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd, err := h.Command(context.WithoutCancel(ctx), "control", self, serveDatabase)
	if err != nil {
		return nil, err
	}
	cmd.Stderr = h.log
	// A session of its own: it outlives this program if the cluster is kept.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the database: %w", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("start the database: it ended: %w", err)
	}
	var dsn string
	if n, _ := fmt.Sscanf(line, "ready %s", &dsn); n != 1 {
		return nil, errors.New("start the database: " + line)
	}
	return h.forwardDatabase(ctx, dsn)
}

func (h *Harness) forwardDatabase(ctx context.Context, dsn string) (*Database, error) {
	inside, err := url.Parse(dsn)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	outside := *inside
	if outside.Host, err = h.Forward(ctx, inside.Host); err != nil {
		return nil, err
	}
	d := &Database{PodURL: inside.String(), HostURL: outside.String()}
	text, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	return d, os.WriteFile(h.databaseFile(), text, 0o600)
}

func (h *Harness) databaseFile() string { return filepath.Join(h.Dir(), "database.json") }

// keptDatabase finds the database of an earlier run, if it answers.
func (h *Harness) keptDatabase(ctx context.Context) *Database {
	var d Database
	text, err := os.ReadFile(h.databaseFile())
	if err != nil || json.Unmarshal(text, &d) != nil {
		return nil
	}
	conn, err := pgx.Connect(ctx, d.HostURL)
	if err != nil {
		return nil
	}
	_ = conn.Close(ctx)
	return &d
}
