// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"leasehold.dev/leaderelect"
	"leasehold.dev/test/api/apiserver"
)

// testLibraryRoles: a program with the roles of the page, and no others, leads;
// without them it does not.
func testLibraryRoles(t *testing.T, server *apiserver.Server, api client.Client) {
	config := rest.CopyConfig(server.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:default:reconciler",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"}}
	const leads = "it leads"
	lead := func() error {
		elector, err := leaderelect.New(leaderelect.Options{Config: config, Namespace: "default", Name: "reconciler",
			Compete: &leaderelect.Compete{Fresh: true}})
		if err != nil {
			return err
		}
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		return elector.Run(ctx, func(context.Context, *leaderelect.Term) error { return errors.New(leads) })
	}
	if err := lead(); err == nil || err.Error() == leads {
		t.Errorf("without roles: %v", err)
	}
	roles := blocks(page{"docs/library.md", read(t, "docs/library.md")}, "yaml")
	for _, b := range roles {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(b.text), &object.Object); err != nil {
			t.Fatal(err)
		}
		if err := api.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	// The API server learns of roles by a watch.
	for tick, late := time.Tick(100*time.Millisecond), time.After(time.Minute); ; {
		err := lead()
		if err != nil && err.Error() == leads {
			return
		}
		select {
		case <-tick:
		case <-late:
			t.Fatal(err)
		}
	}
}
