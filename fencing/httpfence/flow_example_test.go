// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package httpfence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite"

	"leasehold.dev/fencing"
	"leasehold.dev/fencing/httpfence"
	"leasehold.dev/fencing/sqlite"
)

// A service whose storage is SQLite, and two holders of one lease: once the
// second has raised the mark, the first is refused.
func Example() {
	if err := flow(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 34 writes: <nil>
	// 35 before its raise: not raised true
	// 35 writes: <nil>
	// 34 again: fenced true
	// no claim: 428 Precondition Required
	// the entries are of 34 35
}

func flow(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "ledger.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	guard, err := arm(ctx, db)
	if err != nil {
		return err
	}
	service := httptest.NewServer(ledger(guard))
	defer service.Close()

	holders := &http.Client{Transport: &httpfence.Transport{Base: service.Client().Transport}}
	mark := httpfence.NewMark(holders, service.URL+"/mark")
	first := fencing.Claim{Issuer: "c1/shop/ledger", Token: 34, Holder: "ledger-0_u1"}
	second := fencing.Claim{Issuer: "c1/shop/ledger", Token: 35, Holder: "ledger-1_u2"}

	if err := mark.Raise(ctx, first); err != nil {
		return err
	}
	fmt.Println("34 writes:", post(ctx, holders, service.URL, first))
	fmt.Println("35 before its raise: not raised", errors.Is(post(ctx, holders, service.URL, second), fencing.ErrNotRaised))
	if err := mark.Raise(ctx, second); err != nil {
		return err
	}
	fmt.Println("35 writes:", post(ctx, holders, service.URL, second))
	fmt.Println("34 again: fenced", errors.Is(post(ctx, holders, service.URL, first), fencing.ErrFenced))

	resp, err := service.Client().Post(service.URL+"/entries", "", http.NoBody)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	fmt.Println("no claim:", resp.Status)

	var tokens string
	err = db.QueryRowContext(ctx, "SELECT group_concat(token, ' ' ORDER BY token) FROM entry").Scan(&tokens)
	fmt.Println("the entries are of", tokens)
	return err
}

// arm makes the storage, and arms it, as an operator does.
func arm(ctx context.Context, db *sql.DB) (*sqlite.Guard, error) {
	if _, err := db.ExecContext(ctx, "CREATE TABLE entry (token INTEGER NOT NULL) STRICT"); err != nil {
		return nil, err
	}
	if err := sqlite.Install(ctx, db); err != nil {
		return nil, err
	}
	guard := sqlite.New(db, "ledger")
	return guard, guard.Arm(ctx, "c1/shop/ledger")
}

// ledger is the service.
func ledger(guard *sqlite.Guard) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/mark", httpfence.MarkHandler(guard))
	mux.Handle("POST /entries", httpfence.Handler(func(w http.ResponseWriter, r *http.Request, claim fencing.Claim) error {
		_, err := guard.Exec(r.Context(), claim, "INSERT INTO entry (token) VALUES (?)", claim.Token)
		if err == nil {
			w.WriteHeader(http.StatusCreated)
		}
		return err
	}))
	return mux
}

// post writes one entry as a holder.
func post(ctx context.Context, client *http.Client, url string, claim fencing.Claim) error {
	r, err := http.NewRequestWithContext(fencing.NewContext(ctx, claim), http.MethodPost, url+"/entries", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	return httpfence.Error(resp)
}
