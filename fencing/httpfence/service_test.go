// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package httpfence

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	_ "modernc.org/sqlite" // the storage of the service

	"leasehold.dev/fencing"
	"leasehold.dev/fencing/fencetest"
	"leasehold.dev/fencing/sqlite"
)

const issuer = "c1/shop/orders"

// service keeps journals, each with a mark, in SQLite files. It listens on a
// real port.
type service struct {
	addr string
	dir  string

	mu     sync.Mutex
	stores map[string]*store
	pauses map[string]func() // by client
	memory map[string]int64  // by client: the highest token that its replica has seen
}

// store is one journal with its mark.
type store struct {
	*sqlite.Guard
	db *sql.DB
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{dir: t.TempDir(), stores: map[string]*store{}, pauses: map[string]func(){}, memory: map[string]int64{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/{name}/mark", func(w http.ResponseWriter, r *http.Request) { MarkHandler(s.store(r)).ServeHTTP(w, r) })
	mux.Handle("POST /{name}/journal", Handler(s.append))
	mux.Handle("DELETE /{name}/journal", Handler(s.remove))
	mux.HandleFunc("POST /{name}/checked/{client}", s.checked)
	mux.HandleFunc("POST /{name}/remembered/{client}", s.remembered)
	mux.HandleFunc("POST /{name}/matched/{length}", s.matched)
	mux.HandleFunc("POST /{name}/lenient", s.lenient)
	server := httptest.NewServer(mux)
	s.addr = server.Listener.Addr().String()
	t.Cleanup(func() {
		server.Close()
		for _, st := range s.stores {
			_ = st.db.Close()
		}
	})
	return s
}

// open returns the store of a name.
func (s *service) open(name string) (*store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.stores[name]; st != nil {
		return st, nil
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.dir, name)+"?_pragma=busy_timeout(20)&_pragma=journal_mode(wal)&_pragma=synchronous(off)")
	if err != nil {
		return nil, err
	}
	_, err = db.Exec("CREATE TABLE IF NOT EXISTS journal (seq INTEGER PRIMARY KEY, token INTEGER, holder TEXT, nonce TEXT) STRICT")
	if err == nil {
		err = sqlite.Install(context.Background(), db)
	}
	if err != nil {
		return nil, err
	}
	s.stores[name] = &store{sqlite.New(db, name), db}
	return s.stores[name], nil
}

func (s *service) store(r *http.Request) *store {
	st, err := s.open(r.PathValue("name"))
	if err != nil {
		panic(err) // the client sees a broken connection
	}
	return st
}

const insert = "INSERT INTO journal (token, holder, nonce) VALUES (?, ?, ?)"

// append is how it should be done.
func (s *service) append(w http.ResponseWriter, r *http.Request, c fencing.Claim) error {
	_, err := s.store(r).Exec(r.Context(), c, insert, c.Token, c.Holder, r.URL.Query().Get("nonce"))
	if err == nil {
		w.WriteHeader(http.StatusCreated)
	}
	return err
}

func (s *service) remove(w http.ResponseWriter, r *http.Request, c fencing.Claim) error {
	_, err := s.store(r).Exec(r.Context(), c, "DELETE FROM journal")
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// write is a handler that knows of no fence. Its claim only names the writer.
func (s *service) write(w http.ResponseWriter, r *http.Request, c fencing.Claim) {
	for {
		_, err := s.store(r).db.ExecContext(r.Context(), insert, c.Token, c.Holder, r.URL.Query().Get("nonce"))
		if err != nil && strings.Contains(err.Error(), "SQLITE_BUSY") {
			continue
		}
		if err != nil {
			Refuse(w, err)
			return
		}
		w.WriteHeader(http.StatusCreated)
		return
	}
}

// checked is a middleware that compares with the mark, and then calls a handler
// that knows of no fence.
func (s *service) checked(w http.ResponseWriter, r *http.Request) {
	c, err := ParseClaim(r.Header)
	var m fencing.Mark
	if err == nil {
		m, err = s.store(r).Read(r.Context())
	}
	if err == nil {
		err = fencing.DecideWrite(m, c)
	}
	if err != nil {
		Refuse(w, err)
		return
	}
	s.mu.Lock()
	pause := s.pauses[r.PathValue("client")]
	s.mu.Unlock()
	pause()
	s.write(w, r, c)
}

// remembered is a middleware that compares with the highest token that this
// replica has seen. Each client has a replica to itself.
func (s *service) remembered(w http.ResponseWriter, r *http.Request) {
	c, err := ParseClaim(r.Header)
	if err != nil {
		Refuse(w, err)
		return
	}
	client := r.PathValue("client")
	s.mu.Lock()
	highest := max(s.memory[client], c.Token)
	s.memory[client] = highest
	s.mu.Unlock()
	if c.Token < highest {
		Refuse(w, &fencing.FencedError{Mine: c, Newest: fencing.Mark{Issuer: c.Issuer, Token: highest}})
		return
	}
	s.write(w, r, c)
}

// matched writes if the journal is as long as the client has read it to be: the
// whole of what If-Match promises.
func (s *service) matched(w http.ResponseWriter, r *http.Request) {
	c, err := ParseClaim(r.Header)
	if err != nil {
		Refuse(w, err)
		return
	}
	result, err := s.store(r).db.ExecContext(r.Context(), "INSERT INTO journal (token, holder, nonce) SELECT ?, ?, ? "+
		"WHERE (SELECT count(*) FROM journal) = CAST(? AS INTEGER)", c.Token, c.Holder, r.URL.Query().Get("nonce"), r.PathValue("length"))
	var rows int64
	if err == nil {
		rows, err = result.RowsAffected()
	}
	switch {
	case err != nil || rows == 0: // read again, match again
		Refuse(w, &fencing.RetryError{Mine: c, Err: err})
	default:
		w.WriteHeader(http.StatusCreated)
	}
}

// lenient lets requests without a claim pass, as if they were of old clients.
func (s *service) lenient(w http.ResponseWriter, r *http.Request) {
	if _, err := ParseClaim(r.Header); err != nil {
		s.write(w, r, fencing.Claim{})
		return
	}
	Handler(s.append).ServeHTTP(w, r)
}

// target is a client of one journal.
type target struct {
	*Mark
	s      *service
	st     *store
	client *http.Client
	url    string
	id     string
}

func newTarget(t *testing.T, s *service, r fencetest.Resource) target {
	t.Helper()
	st, err := s.open(r.Name)
	must(t, err)
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	client := &http.Client{Transport: &Transport{Base: base}}
	url := "http://" + r.Addr + "/" + r.Name
	s.mu.Lock()
	defer s.mu.Unlock()
	id := strconv.Itoa(len(s.pauses))
	s.pauses[id] = r.Pause
	return target{NewMark(&http.Client{Transport: base}, url+"/mark"), s, st, client, url, id}
}

// Arm and Adopt are for operators, who have the storage.
func (tg target) Arm(ctx context.Context, issuer string) error { return tg.st.Arm(ctx, issuer) }

func (tg target) Adopt(ctx context.Context, from, to string) error { return tg.st.Adopt(ctx, from, to) }

func (tg target) Append(ctx context.Context, c fencing.Claim, nonce string) error {
	return tg.send(ctx, c, http.MethodPost, "/journal?nonce="+nonce)
}

// send asks for a write, and returns what the answer says of it.
func (tg target) send(ctx context.Context, c fencing.Claim, method, path string) error {
	r, err := http.NewRequestWithContext(fencing.NewContext(ctx, c), method, tg.url+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := tg.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := Error(resp); err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("status %s", resp.Status)
	}
	return nil
}

func (tg target) Journal(ctx context.Context) ([]fencetest.Entry, error) {
	rows, err := tg.st.db.QueryContext(ctx, "SELECT token, holder, nonce FROM journal ORDER BY seq")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var journal []fencetest.Entry
	for rows.Next() {
		var e fencetest.Entry
		if err := rows.Scan(&e.Token, &e.Holder, &e.Nonce); err != nil {
			return nil, err
		}
		journal = append(journal, e)
	}
	return journal, rows.Err()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func claim(token int64) fencing.Claim {
	return fencing.Claim{Issuer: issuer, Token: token, Holder: "pod-" + strconv.FormatInt(token, 10)}
}
