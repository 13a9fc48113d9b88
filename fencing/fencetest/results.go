// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
)

// EnvResults names the file to which Run adds its results.
const EnvResults = "FENCETEST_RESULTS"

// Outcome of a case.
type Outcome string

// Outcomes of an adapter, and of a naive variant.
const (
	OutcomePass          Outcome = "pass"
	OutcomeFail          Outcome = "fail"
	OutcomeNotApplicable Outcome = "n/a"
	OutcomeCaught        Outcome = "caught"
	OutcomeMissed        Outcome = "missed"
)

// Result is one line of the results.
type Result struct {
	Adapter string  `json:"adapter"`
	Naive   string  `json:"naive,omitempty"` // the variant; empty for the adapter itself
	Case    string  `json:"case"`
	Outcome Outcome `json:"outcome"`
	Detail  string  `json:"detail,omitempty"` // what was done, the reason, or the first fault
	Seed    uint64  `json:"seed"`
}

func record(t *testing.T, r Result) {
	path := os.Getenv(EnvResults)
	if path == "" {
		return
	}
	line, err := json.Marshal(r)
	if err == nil {
		err = appendLine(path, append(line, '\n'))
	}
	if err != nil {
		t.Errorf("record the result: %v", err)
	}
}

// appendLine writes in one call, so that lines of several processes do not mix.
func appendLine(path string, line []byte) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // The caller's own file.
	if err != nil {
		return err
	}
	_, err = f.Write(line)
	return errors.Join(err, f.Close())
}
