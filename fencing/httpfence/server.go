// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package httpfence

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"leasehold.dev/fencing"
)

// The header fields of a claim in a request, and of the mark in a refusal.
const (
	FieldIssuer = "Fencing-Issuer"
	FieldToken  = "Fencing-Token"
	FieldHolder = "Fencing-Holder"
)

// SetClaim puts the claim into a request's header.
func SetClaim(h http.Header, c fencing.Claim) {
	h.Set(FieldIssuer, c.Issuer)
	h.Set(FieldToken, fmt.Sprint(c.Token))
	h.Set(FieldHolder, c.Holder)
}

// ParseClaim reads the claim of a request's header. A field that is missing or
// empty gives an error that matches fencing.ErrNoClaim, one that is malformed or
// there twice fencing.ErrInvalidClaim.
func ParseClaim(h http.Header) (fencing.Claim, error) {
	var values [3]string
	for i, name := range []string{FieldIssuer, FieldToken, FieldHolder} {
		switch field := h.Values(name); {
		case len(field) > 1: // which of them a gateway has looked at cannot be known
			return fencing.Claim{}, fmt.Errorf("%w: there are %d fields %s", fencing.ErrInvalidClaim, len(field), name)
		case len(field) == 0 || field[0] == "":
			return fencing.Claim{}, fmt.Errorf("%w: the request has no field %s; send all of %s, %s and %s, "+
				"and let no gateway remove them", fencing.ErrNoClaim, name, FieldIssuer, FieldToken, FieldHolder)
		default:
			values[i] = field[0]
		}
	}
	token, err := fencing.ParseToken(values[1])
	if err != nil {
		return fencing.Claim{}, err
	}
	c := fencing.Claim{Issuer: values[0], Token: token, Holder: values[2]}
	return c, c.Validate()
}

// Middleware refuses requests without a claim, and gives the others to next with
// the claim in their context, for fencing.FromContext. It does not compare the
// claim with a mark: next must do so in the transaction in which it writes, and
// pass what the guard says to Refuse.
func Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		claim, err := ParseClaim(r.Header)
		if err != nil {
			Refuse(w, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(fencing.NewContext(r.Context(), claim)))
	})
}

// HandlerFunc serves a request on condition of its claim, which it hands to the
// guard of its storage. It returns the guard's error before it has written
// anything to w.
type HandlerFunc func(w http.ResponseWriter, r *http.Request, claim fencing.Claim) error

// Handler serves requests with f: Middleware before it, and Refuse for the error
// that it returns. If f has answered already when it returns an error, the
// connection is broken off, so that the answer does not pass for a success.
func Handler(f HandlerFunc) http.Handler {
	return Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		claim, err := fencing.FromContext(r.Context())
		answer := &answer{ResponseWriter: w}
		if err == nil {
			err = f(answer, r, claim)
		}
		switch {
		case err == nil:
		case answer.begun:
			panic(http.ErrAbortHandler)
		default:
			Refuse(w, err)
		}
	}))
}

// answer notes whether an answer has begun.
type answer struct {
	http.ResponseWriter
	begun bool
}

func (a *answer) WriteHeader(status int) {
	a.begun = a.begun || status >= http.StatusOK // before it are interim answers
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// MarkHandler serves the mark of a guard, for holders that reach it over HTTP:
// GET reads it, and POST raises it to the claim of the request. Arming and
// adopting are not for holders, and have no method here.
func MarkHandler(guard fencing.Guard) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /", Handler(func(w http.ResponseWriter, r *http.Request, claim fencing.Claim) error {
		err := guard.Raise(r.Context(), claim)
		if err == nil {
			w.WriteHeader(http.StatusNoContent)
		}
		return err
	}))
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		mark, err := guard.Read(r.Context())
		if err != nil {
			Refuse(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(toJSON(mark)) // a client that is gone needs no answer
	})
	return mux
}

// Refuse answers with the problem that stands for the error. What the storage
// said in its own words is kept from the client.
func Refuse(w http.ResponseWriter, err error) {
	k := kindOf(err)
	p := problem{Type: typePrefix + k.name, Title: k.title, Status: k.status, Detail: k.detail}
	if k.tell {
		p.Detail = err.Error()
	}
	h := w.Header()
	if mark := markOf(err); mark.Armed() {
		SetClaim(h, fencing.Claim(mark))
		p.Newest = toJSON(mark)
	}
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	if errors.Is(err, fencing.ErrRetry) {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(k.status)
	_ = json.NewEncoder(w).Encode(p) // a client that is gone needs no answer
}
