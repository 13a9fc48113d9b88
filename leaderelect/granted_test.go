// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package leaderelect_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/internal/testenv/apiserver"
	"leasehold.dev/leaderelect"
	"leasehold.dev/leaderelect/lease"
)

// TestGrantedTermIsAnnounced: by the time the function runs, the container's
// termination message names the very start that the Lease shows, so that its
// end, reported by the kubelet, is proof.
func TestGrantedTermIsAnnounced(t *testing.T) {
	t.Parallel()
	config := apiserver.Config(t)
	client := kubernetes.NewForConfigOrDie(config)
	holder := lease.Holder("announcer-0", "7c1f")
	if err := grant(client, "announced", holder); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "termination-log")
	if err := os.WriteFile(path, []byte("what the program wrote"), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := leaderelect.New(leaderelect.Options{Config: config, Namespace: metav1.NamespaceDefault, Name: "announced",
		Identity: holder, TerminationMessagePath: path})
	if err != nil {
		t.Fatal(err)
	}
	p := (&match{contest: &contest{}}).play(t, e)
	p.term()
	l, err := client.CoordinationV1().Leases(metav1.NamespaceDefault).Get(t.Context(), "announced", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	nonce := l.Annotations[v1alpha1.AnnotationStarted]
	have, _ := os.ReadFile(path)
	if want := "what the program wrote\n" + lease.TerminationMessage(nonce) + "\n"; nonce == "" || string(have) != want {
		t.Errorf("the termination message is %q, want %q", have, want)
	}
}

// A competing elector has no kubelet's report to prove anything with.
func TestCompetingTermIsNotAnnounced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "termination-log")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m := &match{contest: newContest(t, apiserver.Namespace(t), 0)}
	e, err := leaderelect.New(leaderelect.Options{Config: apiserver.Config(t), Namespace: m.namespace, Name: m.name,
		Compete: &leaderelect.Compete{Issuer: "test", Fresh: true}, TerminationMessagePath: path})
	if err != nil {
		t.Fatal(err)
	}
	m.play(t, e).term()
	if have, _ := os.ReadFile(path); strings.TrimSpace(string(have)) != "" {
		t.Errorf("the termination message is %q, want none", have)
	}
}
