// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package leaderelect_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	_ "modernc.org/sqlite" // The driver.

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/fencing/sqlite"
	"leasehold.dev/internal/testenv/apiserver"
	"leasehold.dev/leaderelect/lease"
)

// What the examples run on.

// exampleConfig reaches a real API server. Without one the program that shows the
// example ends, and so the example fails.
func exampleConfig() *rest.Config {
	config, err := apiserver.Shared()
	if err != nil {
		panic(err)
	}
	return config
}

// grantedPod is the environment of a pod to which a Lease was granted.
func grantedPod(name string) (*rest.Config, func()) {
	env := map[string]string{v1alpha1.EnvLeaseNamespace: metav1.NamespaceDefault, v1alpha1.EnvLeaseName: name,
		v1alpha1.EnvPodName: "worker-0", v1alpha1.EnvPodUID: "1f7c"}
	config := exampleConfig()
	err := grant(kubernetes.NewForConfigOrDie(config), name, lease.Holder("worker-0", "1f7c"))
	for key, value := range env {
		err = errors.Join(err, os.Setenv(key, value))
	}
	if err != nil {
		panic(err)
	}
	return config, func() {
		for key := range env {
			_ = os.Unsetenv(key)
		}
	}
}

// grant does what Leasehold's manager does.
func grant(client kubernetes.Interface, name, holder string) error {
	ctx := context.Background()
	leases := client.CoordinationV1().Leases(metav1.NamespaceDefault)
	l, err := leases.Create(ctx, lease.New(metav1.ObjectMeta{Name: name}, lease.Config{
		Duration: 15 * time.Second, RenewInterval: 5 * time.Second, TakeUp: time.Minute, LockDelay: lease.DefaultLockDelay,
		OverlapPolicy: v1alpha1.OverlapFence, RenewedBy: v1alpha1.RenewedByApplication, TokenFloor: lease.MaxToken,
	}, lease.Carry{}), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	delete(l.Annotations, v1alpha1.AnnotationClosed) // It has looked at the owner.
	if l, err = leases.Update(ctx, l, metav1.UpdateOptions{}); err != nil {
		return err
	}
	l, err = lease.Observation{Lease: l}.Grant(holder, "cluster/default/"+name, lease.Basis{Kind: lease.ByRelease}, time.Now())
	if err != nil {
		return err
	}
	_, err = leases.Update(ctx, l, metav1.UpdateOptions{})
	return err
}

// exampleDatabase has a table whose writes are guarded.
func exampleDatabase() (*sql.DB, func()) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		panic(err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "db")+"?_pragma=journal_mode(WAL)&_txlock=immediate")
	if err == nil {
		err = sqlite.Install(ctx, db)
	}
	if err == nil {
		_, err = db.ExecContext(ctx, `CREATE TABLE ledger (amount INTEGER)`)
	}
	system, gone := kubernetes.NewForConfigOrDie(exampleConfig()).CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err = errors.Join(err, gone); err == nil {
		err = sqlite.New(db, "ledger").Arm(ctx, fmt.Sprintf("%s/%s/%s", system.UID, metav1.NamespaceDefault, "reconciler"))
	}
	if err != nil {
		panic(err)
	}
	return db, func() { _, _ = db.Close(), os.RemoveAll(dir) }
}
