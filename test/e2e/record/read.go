// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"leasehold.dev/test/e2e/evidence"
)

// DB is what reading needs.
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Starts returns the starts of a job, in their order, with their signs of life.
func Starts(ctx context.Context, db DB, job string) ([]evidence.Start, error) {
	rows, err := db.Query(ctx, `SELECT s.job, s.kind, s.token, s.holder, s.boot, s.pid, s.started_at, s.raised_at,
		coalesce(max(b.at), s.started_at), count(b.at), (SELECT count(*) FROM writes w WHERE w.start = s.id),
		(SELECT count(*) FROM refusals r WHERE r.start = s.id)
		FROM starts s LEFT JOIN beats b ON b.start = s.id WHERE s.job = $1 GROUP BY s.id ORDER BY s.started_at`, job)
	if err != nil {
		return nil, fmt.Errorf("read starts: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (evidence.Start, error) {
		var s evidence.Start
		var raised *time.Time
		err := row.Scan(&s.Job, &s.Kind, &s.Token, &s.Holder, &s.Boot, &s.PID, &s.At, &raised,
			&s.Last, &s.Beats, &s.Accepted, &s.Refused)
		if raised != nil {
			s.RaisedAt = *raised
		}
		return s, err
	})
}

// Writes returns the accepted guarded writes of a job.
func Writes(ctx context.Context, db DB, job string) ([]evidence.Write, error) {
	rows, err := db.Query(ctx, `SELECT s.token, w.at FROM writes w JOIN starts s ON w.start = s.id WHERE s.job = $1 ORDER BY w.at`, job)
	if err != nil {
		return nil, fmt.Errorf("read writes: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (evidence.Write, error) {
		var w evidence.Write
		return w, row.Scan(&w.Token, &w.At)
	})
}

// Jobs returns the names of the jobs that begin with a prefix.
func Jobs(ctx context.Context, db DB, prefix string) ([]string, error) {
	rows, err := db.Query(ctx, `SELECT DISTINCT job FROM starts WHERE starts_with(job, $1) ORDER BY job`, prefix)
	if err != nil {
		return nil, fmt.Errorf("read jobs: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
