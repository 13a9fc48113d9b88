// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package mysqltest

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

func TestServer(t *testing.T) {
	t.Parallel()
	s, err := Start(t.Context(), "innodb-lock-wait-timeout=7")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() })
	connector, err := mysql.NewConnector(s.Config("mysql"))
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	// Servers with one directory for temporary tables remove each other's.
	var temporary string
	if err := db.QueryRowContext(t.Context(), "SELECT @@tmpdir").Scan(&temporary); err != nil || filepath.Dir(temporary) != s.Dir {
		t.Errorf("temporary tables are in %q, %v; want a directory of this server in %q", temporary, err, s.Dir)
	}
	var got int
	if err := db.QueryRowContext(t.Context(), "SELECT @@innodb_lock_wait_timeout").Scan(&got); err != nil || got != 7 {
		t.Errorf("the setting is %d, %v; want 7", got, err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := db.PingContext(t.Context()); err == nil {
		t.Error("the server answers after Stop")
	}
	if _, err := os.Stat(s.Dir); !os.IsNotExist(err) {
		t.Errorf("stat of the directory after Stop: %v, want it gone", err)
	}
}

func TestStartFailureQuotesTheLog(t *testing.T) {
	t.Parallel()
	_, err := Start(t.Context(), "no-such-setting=1")
	if err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("error %v, want the server's own words", err)
	}
}
