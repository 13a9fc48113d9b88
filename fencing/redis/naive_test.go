// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"leasehold.dev/fencing"
	"leasehold.dev/fencing/fencetest"
)

// naives are look-alikes of the adapter that have a hole. Those of a fail-over
// and of WAIT are in failover_test.go.
func naives() []fencetest.Naive {
	return []fencetest.Naive{
		{Name: "GET, then write", CaughtBy: []string{fencetest.CaseFrozen, fencetest.CaseContended},
			Open: func(t *testing.T, r fencetest.Resource) fencetest.Target {
				return checksFirst{reopen(t, r)}
			}},
		{Name: "tokens as numbers of Lua", CaughtBy: []string{fencetest.CaseNumbers},
			Open: func(t *testing.T, r fencetest.Resource) fencetest.Target {
				return scripted{single(t, r), numbersRaise, numbersAppend}
			}},
		{Name: "tokens as text", CaughtBy: []string{fencetest.CaseNumbers},
			Open: func(t *testing.T, r fencetest.Resource) fencetest.Target {
				return scripted{single(t, r), textRaise, textAppend}
			}},
		{Name: "no mark is a mark at zero", CaughtBy: []string{fencetest.CaseArm, fencetest.CaseMarkLost},
			Open: func(t *testing.T, r fencetest.Resource) fencetest.Target {
				return scripted{single(t, r), zeroRaise, zeroAppend}
			}},
		{Name: "a newer token needs no raise", CaughtBy: []string{fencetest.CaseNotRaised, fencetest.CaseCollision},
			Open: func(t *testing.T, r fencetest.Resource) fencetest.Target {
				return scripted{single(t, r), raiseScript, newerAppend}
			}},
	}
}

// reopen opens a target by the kind of server that r is on.
func reopen(t *testing.T, r fencetest.Resource) target {
	t.Helper()
	// The suites of Sentinel and of a cluster have stores of their own; a plain
	// client does for all of them, since each has one primary.
	c := client(t, r.Addr)
	return newTarget(t, r, c, c, Options{})
}

// checksFirst reads the mark and then writes.
type checksFirst struct{ target }

func (n checksFirst) Append(ctx context.Context, c fencing.Claim, nonce string) error {
	m, err := n.Read(ctx)
	if err != nil {
		return err
	}
	if err := fencing.DecideWrite(m, c); err != nil {
		return err
	}
	n.pause()
	err = n.single.RPush(ctx, string(n.journal()), entry(c, nonce)).Err()
	return classify(ctx, err, failure{claim: c, decide: fencing.DecideWrite, writing: true})
}

// scripted raises and writes by other scripts.
type scripted struct {
	target
	raise, write *Script
}

func (n scripted) Raise(ctx context.Context, c fencing.Claim) error {
	if err := c.Validate(); err != nil {
		return err
	}
	return n.repeatable(ctx, "raise", n.raise, c, fencing.DecideRaise, claimArgs(c)...)
}

func (n scripted) Append(ctx context.Context, c fencing.Claim, nonce string) error {
	_, err := n.guarded(ctx, c, n.write, []Key{n.journal()}, []any{entry(c, nonce)}, true)
	return err
}

// The scripts of the naive variants are those of the adapter with one thing
// changed.
var (
	push = `return redis.call('RPUSH', KEYS[1], ARGV[1])`

	numbersRaise = edited(raiseLua,
		"local above = #ARGV[2] > #token or (#ARGV[2] == #token and ARGV[2] > token)", "local above = tonumber(ARGV[2]) > tonumber(token)",
		"token == ARGV[2]", "tonumber(token) == tonumber(ARGV[2])")
	numbersAppend = edited(checkLua+push,
		"#ARGV[2] > #token or (#ARGV[2] == #token and ARGV[2] > token)", "tonumber(ARGV[2]) > tonumber(token)",
		"token ~= ARGV[2]", "tonumber(token) ~= tonumber(ARGV[2])")

	textRaise  = edited(raiseLua, "#ARGV[2] > #token or (#ARGV[2] == #token and ARGV[2] > token)", "ARGV[2] > token")
	textAppend = edited(checkLua+push, "#ARGV[2] > #token or (#ARGV[2] == #token and ARGV[2] > token)", "ARGV[2] > token")

	zeroMark  = `issuer, token, holder = ARGV[1], '0', ''`
	zeroRaise = edited(raiseLua,
		"return redis.error_reply('NOTARMED there is no mark at ' .. KEYS[1])", zeroMark,
		"redis.call('PERSIST', KEYS[1])", "redis.call('HSET', KEYS[1], 'issuer', issuer)")
	zeroAppend = edited(checkLua+push, "return redis.error_reply('NOTARMED there is no mark at ' .. leasehold_mark)",
		"issuer, token, holder = ARGV[1], ARGV[2], ARGV[3]",
		"if server ~=", "if server and server ~=")

	newerAppend = edited(checkLua+push, "code = 'NOTRAISED'", "redis.call('HSET', leasehold_mark, 'token', ARGV[2], 'holder', ARGV[3])",
		"token ~= ARGV[2] or holder ~= ARGV[3] or holder == ''", "token ~= ARGV[2]")
)

// edited returns a script with texts replaced, each of which must be in it.
func edited(lua string, pairs ...string) *Script {
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(lua, pairs[i]) {
			panic(fmt.Sprintf("the script has no %q", pairs[i]))
		}
		lua = strings.ReplaceAll(lua, pairs[i], pairs[i+1])
	}
	return plain(lua)
}

// TestLuaNumbers shows why the scripts compare text.
func TestLuaNumbers(t *testing.T) {
	t.Parallel()
	c := client(t, server.Addr())
	equal := func(script string, a, b int64) bool {
		n, err := c.Eval(t.Context(), script, nil, strconv.FormatInt(a, 10), strconv.FormatInt(b, 10)).Int()
		must(t, err)
		return n == 1
	}
	const a, b = 1 << 53, 1<<53 + 1
	if !equal("return tonumber(ARGV[1]) == tonumber(ARGV[2]) and 1 or 0", a, b) {
		t.Error("numbers of Lua tell 2^53 and 2^53+1 apart: the comparison as text is not needed")
	}
	if equal("return ARGV[1] == ARGV[2] and 1 or 0", a, b) {
		t.Error("as text they are equal")
	}
}
