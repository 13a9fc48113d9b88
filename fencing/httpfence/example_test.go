// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package httpfence_test

import (
	"context"
	"database/sql"
	"net/http"
	"strings"

	"leasehold.dev/fencing"
	"leasehold.dev/fencing/httpfence"
	"leasehold.dev/fencing/sqlite"
)

// A service makes its storage transaction conditional on the claim of the
// request.
func ExampleHandler() {
	routes := func(db *sql.DB) http.Handler {
		guard := sqlite.New(db, "ledger")
		mux := http.NewServeMux()
		mux.Handle("/mark", httpfence.MarkHandler(guard))
		mux.Handle("PUT /balance", httpfence.Handler(func(w http.ResponseWriter, r *http.Request, claim fencing.Claim) error {
			_, err := guard.Exec(r.Context(), claim, "UPDATE account SET balance = ? WHERE id = 1", r.FormValue("value"))
			if err == nil {
				w.WriteHeader(http.StatusNoContent)
			}
			return err
		}))
		return mux
	}
	_ = routes
}

// A holder raises the mark of the service, and then sends requests that carry
// its claim.
func ExampleTransport() {
	work := func(ctx context.Context) error {
		claim, err := fencing.FromEnv()
		if err != nil {
			return err
		}
		ctx = fencing.NewContext(ctx, claim)
		client := &http.Client{Transport: &httpfence.Transport{}}
		if err := httpfence.NewMark(client, "http://ledger/mark").Raise(ctx, claim); err != nil {
			return err
		}
		// Read the state here, after the raise.
		r, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://ledger/balance", strings.NewReader("value=10"))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := client.Do(r)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		return httpfence.Error(resp)
	}
	_ = work
}
