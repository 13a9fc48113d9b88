// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

var (
	errMemory  = errors.New("the database is in memory, or temporary, so that its mark is forgotten; use a file")
	errNetwork = errors.New("the database is on a network file system, where the locks that fencing rests on are not reliable; " +
		"use a local disk that one node has at a time, or a database server")
)

// checkFile refuses a database whose mark does not last or whose locks do not
// hold.
func checkFile(ctx context.Context, db *sql.DB) error {
	var seq int
	var name, path string
	err := db.QueryRowContext(ctx, "SELECT seq, name, file FROM pragma_database_list WHERE name = 'main'").Scan(&seq, &name, &path)
	if err != nil {
		return err
	}
	if path == "" {
		return errMemory
	}
	remote, err := onNetwork(path)
	switch {
	case err != nil:
		return fmt.Errorf("file system of %s: %w", path, err)
	case remote:
		return fmt.Errorf("%s: %w", path, errNetwork)
	}
	return nil
}
