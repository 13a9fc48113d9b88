// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/fencing/postgres"
	"leasehold.dev/test/harness"
)

//go:embed ledger.yaml
var manifest string

const (
	namespace = "default"
	name      = "ledger"
	// contested is the entry that both holders come to write.
	contested = 3
)

type story struct {
	*harness.Harness
	fence bool
	db    *pgx.Conn

	old, successor v1alpha1.HolderStatus
	logs           *bufio.Reader
	stopLogs       func()
	verdict        string
	lapsed         time.Duration
}

func (s *story) close() {
	if s.stopLogs != nil {
		s.stopLogs()
	}
	if s.db != nil {
		_ = s.db.Close(context.Background())
	}
}

func (s *story) tell(ctx context.Context) error {
	if err := s.install(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, part := range []func(context.Context) error{
		s.database, s.apply, s.freeze, s.succeed, s.wake, s.judge, s.end,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) install(ctx context.Context) error {
	step("Leasehold, installed with kubectl apply -k config/default")
	if err := s.Install(ctx); err != nil {
		return err
	}
	out, err := s.Kubectl(ctx, "-n", harness.Namespace, "get", "deployment,pods")
	show(out)
	return err
}

func (s *story) database(ctx context.Context) error {
	step("A real PostgreSQL, outside of Kubernetes, with a ledger")
	d, err := s.StartDatabase(ctx)
	if err != nil {
		return err
	}
	if s.db, err = pgx.Connect(ctx, d.HostURL); err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	if _, err := s.db.Exec(ctx, `CREATE TABLE ledger (entry int PRIMARY KEY, token bigint NOT NULL,
		writer text NOT NULL, written_at timestamptz NOT NULL DEFAULT now()); LISTEN ledger`); err != nil {
		return fmt.Errorf("create the ledger: %w", err)
	}
	fence := "on"
	if s.fence {
		if err := s.arm(ctx); err != nil {
			return err
		}
		say("Its mark is armed: from now on the database takes writes of the newest token only.")
	} else {
		say("It has no mark: whoever writes last wins.")
		fence = "off"
	}
	manifest = strings.NewReplacer("@DATABASE_URL@", d.PodURL, "@FENCE@", fence).Replace(manifest)
	return nil
}

// arm prepares the mark, as an operator does once for each resource.
func (s *story) arm(ctx context.Context) error {
	var system corev1.Namespace
	if err := s.Client.Get(ctx, types.NamespacedName{Name: "kube-system"}, &system); err != nil {
		return err
	}
	if err := postgres.Install(ctx, s.db); err != nil {
		return err
	}
	return postgres.New(s.db, name).Arm(ctx, strings.Join([]string{string(system.UID), namespace, name}, "/"))
}

func (s *story) apply(ctx context.Context) error {
	step("A SingletonJob is applied: one writer, leased, with a fencing token")
	if _, err := s.KubectlInput(ctx, manifest, "apply", "-f", "-"); err != nil {
		return err
	}
	holder, err := s.held(ctx, "")
	if err != nil {
		return err
	}
	s.old = holder
	out, err := s.Kubectl(ctx, "get", "sj,lease")
	show(out)
	if err != nil {
		return err
	}
	say("Pod %s on node %s holds the lease; its token is %d.", holder.Pod, holder.Node, holder.Token)
	return s.follow(ctx, holder.Pod)
}

// held waits for a confirmed holder other than the one given.
func (s *story) held(ctx context.Context, other types.UID) (v1alpha1.HolderStatus, error) {
	var holder v1alpha1.HolderStatus
	err := s.eventually(ctx, "a pod holds the lease", func(ctx context.Context) (bool, error) {
		var job v1alpha1.SingletonJob
		if err := s.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &job); err != nil {
			return false, err
		}
		if job.Status.Holder == nil || job.Status.Holder.UID == other || job.Status.Holder.Node == "" ||
			!meta.IsStatusConditionTrue(job.Status.Conditions, v1alpha1.ConditionHeld) {
			return false, nil
		}
		holder = *job.Status.Holder
		return true, nil
	})
	return holder, err
}

func (s *story) eventually(ctx context.Context, what string, check wait.ConditionWithContextFunc) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 90*time.Second, true, check)
	if err != nil {
		return fmt.Errorf("waiting until %s: %w", what, err)
	}
	return nil
}

// follow reads the pod's log as it grows.
func (s *story) follow(ctx context.Context, pod string) error {
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	cmd := s.KubectlCommand(ctx, "logs", "-f", pod)
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		cancel()
		return err
	}
	s.logs = bufio.NewReader(r)
	s.stopLogs = func() { cancel(); _ = w.Close(); _ = cmd.Wait() }
	return nil
}

// line waits for a line of the followed log that contains one of the words.
func (s *story) line(words ...string) (string, error) {
	for {
		line, err := s.logs.ReadString('\n')
		if err != nil {
			return "", fmt.Errorf("read the old holder's log: %w", err)
		}
		for _, w := range words {
			if strings.Contains(line, w) {
				return strings.TrimSpace(line), nil
			}
		}
	}
}

func (s *story) freeze(ctx context.Context) error {
	step("The holder is stopped, agent and worker, just before a write")
	for {
		n, err := s.db.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("waiting for the writer: %w", err)
		}
		var token int64
		var entry int
		if _, err := fmt.Sscanf(n.Payload, "%d %d", &token, &entry); err != nil {
			return err
		}
		if entry == contested {
			break
		}
	}
	if err := s.Freeze(ctx, namespace, s.old.Pod, name); err != nil {
		return err
	}
	say("It had read entry %d and was about to write entry %d. Then every process of its container stopped,", contested-1, contested)
	say("as in a long GC pause, a suspended VM or a swapping machine. It knows nothing of it.")
	return s.rows(ctx)
}

func (s *story) succeed(ctx context.Context) error {
	step("Its renewals cease: the lease lapses, the holder is evicted, a successor starts")
	began := time.Now()
	holder, err := s.held(ctx, s.old.UID)
	if err != nil {
		return err
	}
	s.successor, s.lapsed = holder, time.Since(began)
	out, err := s.Kubectl(ctx, "get", "sj,lease,pods")
	show(out)
	if err != nil {
		return err
	}
	if holder.Token <= s.old.Token {
		return fmt.Errorf("the successor's token %d is not greater than %d", holder.Token, s.old.Token)
	}
	say("%.1f s after the stop, pod %s holds the lease. Its token %d is greater than %d.",
		s.lapsed.Seconds(), holder.Pod, holder.Token, s.old.Token)
	return s.eventually(ctx, "the successor has written the contested entry", func(ctx context.Context) (bool, error) {
		token, err := s.tokenOf(ctx, contested)
		if errors.Is(err, pgx.ErrNoRows) {
			return false, nil
		}
		return token == holder.Token, err
	})
}

func (s *story) tokenOf(ctx context.Context, entry int) (token int64, err error) {
	err = s.db.QueryRow(ctx, `SELECT token FROM ledger WHERE entry = $1`, entry).Scan(&token)
	return token, err
}

func (s *story) wake(ctx context.Context) error {
	step("The old worker wakes up, within its termination grace, and writes")
	if err := s.rows(ctx); err != nil {
		return err
	}
	say("Its agent would stop it at once, so the agent is held back a moment longer:")
	say("only the database stands between the stale write and the successor's entry %d now.", contested)
	if err := s.Kill(ctx, namespace, s.old.Pod, name, syscall.SIGSTOP); err != nil {
		return err
	}
	if err := s.Thaw(ctx, namespace, s.old.Pod, name); err != nil {
		return err
	}
	line, err := s.line("REFUSED", fmt.Sprintf("wrote entry %d", contested), "error:")
	if err != nil {
		return err
	}
	s.verdict = line
	say("The old worker, %s, says:", s.old.Pod)
	show(line)
	return nil
}
