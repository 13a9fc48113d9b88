// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/fencing/postgres"
	"leasehold.dev/test/cluster"
	"leasehold.dev/test/cluster/image"
	"leasehold.dev/test/e2e/record"
	"leasehold.dev/test/harness"
)

const (
	probeImage = "leasehold.dev/probe:dev"
	// sideBySide is how many cases run at once. They mostly wait.
	sideBySide = "8"
)

// suite is what all cases share.
type suite struct {
	*harness.Harness
	db         *pgxpool.Pool
	podURL     string // Of the database, for pods.
	clusterUID string
	crashing   string // The crash manager's program.
}

var shared *suite

func TestMain(m *testing.M) {
	harness.ServeDatabase()
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "test/e2e needs root on Linux, since it starts nodes and breaks them: run it as root")
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	sideBySideByDefault()
	log, err := logFile()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer log.Close()
	config := cluster.Config{Name: "e2e", Nodes: 3, Log: log}
	began := time.Now()
	shared, err = setUp(ctx, config)
	if err != nil {
		fmt.Fprintf(os.Stderr, "set up the cluster: %v\nsee %s\n", err, log.Name())
	}
	code := 1
	if err == nil {
		fmt.Printf("measured: set up in %.0f s\n", time.Since(began).Seconds())
		code = m.Run()
	}
	if os.Getenv("E2E_KEEP") != "" {
		fmt.Println("The cluster is still up (E2E_KEEP). To end it: make cluster-down CLUSTER_FLAGS='--name e2e'")
		return code
	}
	if err := cluster.DownCluster(context.WithoutCancel(ctx), config); err != nil {
		fmt.Fprintln(os.Stderr, "take the cluster down:", err)
		return 1
	}
	return code
}

// sideBySideByDefault lets cases run side by side on small machines too.
func sideBySideByDefault() {
	chosen := false
	flag.Visit(func(f *flag.Flag) {
		// go test passes on only what it was given.
		chosen = chosen || f.Name == "test.parallel"
	})
	if !chosen {
		_ = flag.Set("test.parallel", sideBySide)
	}
}

// logFile is where the cluster's own noise goes.
func logFile() (*os.File, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "leasehold")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return os.Create(filepath.Join(dir, "e2e.log"))
}

func setUp(ctx context.Context, config cluster.Config) (*suite, error) {
	// Faults need nodes of our own, whatever cluster the shell is set up for.
	if err := os.Unsetenv("KUBECONFIG"); err != nil {
		return nil, err
	}
	h, err := harness.Up(ctx, config)
	if err != nil {
		return nil, err
	}
	s := &suite{Harness: h}
	for _, step := range []func(context.Context) error{s.reserveNodes, s.images, s.Install, s.database} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// faultTaint keeps everything off the nodes that are for faults, unless it asks
// for them.
const faultTaint = "leasehold.dev/e2e-faults"

func (s *suite) reserveNodes(ctx context.Context) error {
	for _, node := range s.NodeNames()[1:] {
		inUse[node] = &sync.Mutex{}
		if err := errors.Join(s.ThawNode(ctx, node), s.Heal(ctx, node), s.Start(ctx, node)); err != nil {
			return err
		}
		if _, err := s.Kubectl(ctx, "taint", "node", node, faultTaint+"=:NoSchedule", "--overwrite"); err != nil {
			return err
		}
		if _, err := s.Kubectl(ctx, "uncordon", node); err != nil {
			return err
		}
	}
	return nil
}

func (s *suite) images(ctx context.Context) error {
	archive, err := s.BuildImage(ctx, "./test/e2e/probe", "/probe",
		image.Spec{Ref: probeImage, Entrypoint: []string{"/probe"}, User: "65532"})
	if err != nil {
		return err
	}
	if err := s.ImportImages(ctx, archive); err != nil {
		return err
	}
	s.crashing, err = s.Build(ctx, filepath.Dir(archive), "./test/e2e/crashmanager")
	return err
}

func (s *suite) database(ctx context.Context) error {
	d, err := s.StartDatabase(ctx)
	if err != nil {
		return err
	}
	s.podURL = d.PodURL
	if s.db, err = pgxpool.New(ctx, d.HostURL); err != nil {
		return err
	}
	conn, err := s.db.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if err := errors.Join(record.Install(ctx, conn.Conn()), postgres.Install(ctx, conn)); err != nil {
		return err
	}
	var system corev1.Namespace
	if err := s.Client.Get(ctx, types.NamespacedName{Name: "kube-system"}, &system); err != nil {
		return err
	}
	s.clusterUID = string(system.UID)
	return nil
}
