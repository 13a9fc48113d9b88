// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// rows shows the ledger as the database has it.
func (s *story) rows(ctx context.Context) error {
	rows, err := s.db.Query(ctx, `SELECT entry, token, split_part(writer, '_', 1), to_char(written_at, 'HH24:MI:SS.MS')
		FROM ledger WHERE entry <= $1 ORDER BY entry`, contested)
	if err != nil {
		return err
	}
	defer rows.Close()
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 4, 3, ' ', 0)
	fmt.Fprintln(w, "ENTRY\tTOKEN\tWRITER\tWRITTEN")
	for rows.Next() {
		var entry int
		var token int64
		var writer, at string
		if err := rows.Scan(&entry, &token, &writer, &at); err != nil {
			return err
		}
		fmt.Fprintf(w, "%d\t%d\t%s\t%s\n", entry, token, writer, at)
	}
	if err := errors.Join(rows.Err(), w.Flush()); err != nil {
		return err
	}
	show(text.String())
	return nil
}

// judge looks whether the ledger is what the story promised.
func (s *story) judge(ctx context.Context) error {
	step("What the database has now")
	if err := s.rows(ctx); err != nil {
		return err
	}
	before, err := s.tokenOf(ctx, contested-1)
	if err != nil {
		return err
	}
	after, err := s.tokenOf(ctx, contested)
	if err != nil {
		return err
	}
	switch {
	case before != s.old.Token:
		return fmt.Errorf("entry %d carries token %d, want the old holder's %d", contested-1, before, s.old.Token)
	case s.fence && (after != s.successor.Token || !strings.Contains(s.verdict, "REFUSED")):
		return fmt.Errorf("the stale write was accepted: entry %d carries token %d", contested, after)
	case s.fence:
		say("Both rows are intact: entry %d of the old holder, from when it held the lease,", contested-1)
		say("and entry %d of its successor. The stale write changed nothing.", contested)
	case after != s.old.Token:
		return fmt.Errorf("no corruption was seen: entry %d carries token %d; the control proves nothing", contested, after)
	default:
		s.alarm()
	}
	return nil
}

func (s *story) alarm() {
	fmt.Printf(`
   !!! CORRUPTION !!!
   Entry %d was the successor's (token %d). The old holder, whose lease had ended long
   before, has overwritten it with token %d, and nobody was told. The lease did its work:
   it moved on. No lock service can stop a write that is on its way already; only the
   resource can, by comparing tokens. That is what the fence is for: run it without
   DEMO_FENCE=off.
`, contested, s.successor.Token, s.old.Token)
}

// end lets the old agent go on: it finds its term over and ends the worker.
func (s *story) end(ctx context.Context) error {
	step("The old agent wakes up too, finds its term over, and ends")
	if err := s.Kill(ctx, namespace, s.old.Pod, name, syscall.SIGCONT); err != nil {
		return err
	}
	if err := s.eventually(ctx, "the old pod has ended", s.oldEnded); err != nil {
		return err
	}
	out, err := s.Kubectl(ctx, "get", "sj,pods")
	show(out)
	return err
}

func (s *story) oldEnded(ctx context.Context) (bool, error) {
	var pod corev1.Pod
	err := s.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: s.old.Pod}, &pod)
	if apierrors.IsNotFound(err) || (err == nil && pod.UID != s.old.UID) {
		return true, nil
	}
	return false, err
}

func (s *story) summary(took time.Duration) {
	stale := "accepted: it overwrote the successor's entry"
	result := "corruption shown, as announced"
	if s.fence {
		stale, result = "refused by PostgreSQL", "both rows intact"
	}
	fmt.Println()
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 3, ' ', 0)
	for _, row := range [][2]string{
		{"old holder", fmt.Sprintf("%s, token %d", s.old.Pod, s.old.Token)},
		{"successor", fmt.Sprintf("%s, token %d", s.successor.Pod, s.successor.Token)},
		{"stop to successor", fmt.Sprintf("%.1f s (lease duration 15 s)", s.lapsed.Seconds())},
		{"stale write", stale},
		{"ledger", result},
		{"time in all", took.Round(time.Second).String()},
	} {
		fmt.Fprintf(w, "%s\t%s\n", row[0], row[1])
	}
	_ = w.Flush()
}

// explain prints what the cluster looked like when the story broke off.
func (s *story) explain(ctx context.Context) {
	for _, args := range [][]string{
		{"get", "sj,lease,pods", "-A", "-o", "wide"},
		{"get", "sj", name, "-n", namespace, "-o", "jsonpath={.status}"},
		{"-n", "leasehold-system", "logs", "deployment/leasehold-manager", "--tail=30"},
	} {
		out, err := s.Kubectl(ctx, args...)
		fmt.Fprintf(os.Stderr, "\n$ kubectl %s\n%s", strings.Join(args, " "), out)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}
