// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestLeaseNameCannotBeChanged in any of the ways in which a name can differ from
// what it was.
func TestLeaseNameCannotBeChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, after any }{
		"changed": {"one", "two"},
		"added":   {nil, "two"},
		"removed": {"one", nil},
		// It is the default, but nothing says what the default was.
		"given its default": {nil, "lease-name-default"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustRefuse(t, changeLeaseName(t, c.before, c.after), "spec.lease.name", "make a new SingletonJob instead")
		})
	}
	t.Run("removed with the lease", func(t *testing.T) {
		t.Parallel()
		created := existing(t, edit{"spec.lease.name", "one"})
		mustRefuse(t, tryUpdate(t, change(t, created, edit{"spec.lease", nil})), "spec.lease.name", "make a new SingletonJob instead")
	})
	t.Run("nothing to remove", func(t *testing.T) {
		t.Parallel()
		created := existing(t, edit{"spec.lease.durationSeconds", int64(30)})
		if err := tryUpdate(t, change(t, created, edit{"spec.lease", nil})); err != nil {
			t.Error(err)
		}
	})
}

// changeLeaseName tries to change the lease's name of an existing job, after it
// has seen another change of the lease pass.
func changeLeaseName(t *testing.T, before, after any) error {
	t.Helper()
	created := existing(t, edit{"spec.lease.name", before})
	same := change(t, created.DeepCopy(), edit{"spec.lease.durationSeconds", int64(30)})
	if err := tryUpdate(t, same); err != nil {
		t.Errorf("another change: %v", err)
	}
	return tryUpdate(t, change(t, created, edit{"spec.lease.name", after}))
}

// TestChanges of existing jobs are held to the same rules as new ones, and
// otherwise pass.
func TestChanges(t *testing.T) {
	t.Parallel()
	noCommandAtAll := work(container{"name": "work", "image": "work"})
	kubelet := []edit{{"spec.lease.renewedBy", "Kubelet"}}
	for name, c := range map[string]struct {
		before, after []edit
		message       []string // empty: it passes
	}{
		"agent to kubelet":                      {nil, kubelet, nil},
		"kubelet to agent":                      {kubelet, []edit{{"spec.lease.renewedBy", "Agent"}}, nil},
		"kubelet to the default":                {kubelet, []edit{{"spec.lease.renewedBy", nil}}, nil},
		"kubelet to agent without a command":    {append(noCommandAtAll, kubelet...), []edit{{"spec.lease.renewedBy", "Agent"}}, []string{noCommand}},
		"kubelet to what is not there":          {kubelet, []edit{{"spec.lease.renewedBy", "Application"}}, []string{"spec.lease.renewedBy", "choose Agent"}},
		"agent with standbys to kubelet":        {[]edit{{"spec.standbys", int64(1)}}, kubelet, []string{"spec.standbys", "set standbys to 0"}},
		"agent with an interval to kubelet":     {[]edit{{"spec.lease.renewIntervalSeconds", int64(2)}}, kubelet, []string{"spec.lease.renewIntervalSeconds", "remove renewIntervalSeconds"}},
		"agent with a duration to kubelet":      {[]edit{{"spec.lease.durationSeconds", int64(15)}}, kubelet, []string{"spec.lease.durationSeconds", "raise durationSeconds"}},
		"agent with a long duration to kubelet": {[]edit{{"spec.lease.durationSeconds", int64(60)}}, kubelet, nil},
		"a duration taken away from a long interval": {
			[]edit{{"spec.lease.durationSeconds", int64(60)}, {"spec.lease.renewIntervalSeconds", int64(20)}},
			[]edit{{"spec.lease.durationSeconds", nil}}, []string{"spec.lease.renewIntervalSeconds", "lower renewIntervalSeconds"}},
		"fence to forbid":    {nil, []edit{{"spec.overlapPolicy", "Forbid"}}, nil},
		"forbid to tolerate": {[]edit{{"spec.overlapPolicy", "Forbid"}}, []edit{{"spec.overlapPolicy", "Tolerate"}}, nil},
		"suspended":          {nil, []edit{{"spec.suspend", true}}, nil},
		"another container":  {nil, []edit{{"spec.container", "work"}}, nil},
		"the container that does the work removed": {
			[]edit{{"spec.container", "work"}}, work(containers(1)...), []string{"spec.container", "names no container"}},
		"to completion, and back with a limit": {
			[]edit{{"spec.backoffLimit", int64(1)}, {"spec.template.spec.restartPolicy", "Never"}},
			[]edit{{"spec.template.spec.restartPolicy", nil}}, []string{"spec.backoffLimit", "remove backoffLimit"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tryUpdate(t, change(t, existing(t, c.before...), c.after...))
			switch {
			case len(c.message) > 0:
				mustRefuse(t, err, c.message...)
			case err != nil:
				t.Error(err)
			}
		})
	}
}

// existing is a stored job with a name of its own.
func existing(t *testing.T, edits ...edit) *object {
	t.Helper()
	created := job(t, edits...)
	created.SetName("")
	created.SetGenerateName("change-")
	if err := api.Create(t.Context(), created, client.FieldValidation("Strict")); err != nil {
		t.Fatal(err)
	}
	return created
}

func tryUpdate(t *testing.T, changed *object) error {
	t.Helper()
	return api.Update(t.Context(), changed, client.DryRunAll, client.FieldValidation("Strict"))
}
