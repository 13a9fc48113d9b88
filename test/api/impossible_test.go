// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// impossible are jobs that could never work, and what the refusal must say:
// where it is and what to do about it.
var impossible = map[string]struct {
	edits   []edit
	message []string
}{
	"renew interval above half of the duration": {
		[]edit{{"spec.lease.durationSeconds", int64(10)}, {"spec.lease.renewIntervalSeconds", int64(6)}},
		[]string{"spec.lease.renewIntervalSeconds", "lower renewIntervalSeconds or raise durationSeconds"},
	},
	"renew interval above half of the default duration": {
		[]edit{{"spec.lease.renewIntervalSeconds", int64(8)}},
		[]string{"spec.lease.renewIntervalSeconds", "15 by default"},
	},
	"agent without a command": {
		[]edit{{"spec.template.spec.containers", []any{map[string]any{"name": "work", "image": "work"}}}},
		[]string{"set command on the container that does the work", "renewedBy: Kubelet"},
	},
	"agent with an empty command": {
		[]edit{{"spec.template.spec.containers", []any{map[string]any{"name": "work", "command": []any{}}}}},
		[]string{"set command on the container that does the work"},
	},
	"agent in a container without a command": {
		[]edit{{"spec.container", "helper"}},
		[]string{"set command on the container that does the work"},
	},
	"zero duration": {
		[]edit{{"spec.lease.durationSeconds", int64(0)}},
		[]string{"spec.lease.durationSeconds", "greater than or equal to 3"},
	},
	"duration of two seconds": {
		[]edit{{"spec.lease.durationSeconds", int64(2)}},
		[]string{"spec.lease.durationSeconds", "greater than or equal to 3"},
	},
	"unknown container": {
		[]edit{{"spec.container", "absent"}},
		[]string{"spec.container", "names no container of spec.template", "leave it out for the first"},
	},
	"no containers": {
		[]edit{{"spec.template.spec.containers", []any{}}},
		[]string{"spec.template.spec.containers", "at least 1"},
	},
	"template without a spec": {
		[]edit{{"spec.template", map[string]any{}}},
		[]string{"spec.template.spec: Required value"},
	},
	"standbys that nobody in the pod can wait for": {
		[]edit{{"spec.standbys", int64(1)}, {"spec.lease.renewedBy", "Kubelet"}},
		[]string{"spec.standbys", "set standbys to 0, or choose renewedBy: Agent"},
	},
	"duration that kubelets cannot keep": {
		[]edit{{"spec.lease.renewedBy", "Kubelet"}, {"spec.lease.durationSeconds", int64(15)}},
		[]string{"spec.lease.durationSeconds", "40 or more", "raise durationSeconds"},
	},
	"renew interval where nothing renews": {
		[]edit{{"spec.lease.renewedBy", "Kubelet"}, {"spec.lease.renewIntervalSeconds", int64(10)}},
		[]string{"spec.lease.renewIntervalSeconds", "remove renewIntervalSeconds"},
	},
	"sidecar": {
		[]edit{{"spec.lease.renewedBy", "Sidecar"}},
		[]string{"spec.lease.renewedBy", "not available yet", "choose Agent"},
	},
	"application": {
		[]edit{{"spec.lease.renewedBy", "Application"}},
		[]string{"spec.lease.renewedBy", "not available yet", "choose Agent"},
	},
	"unknown renewer": {
		[]edit{{"spec.lease.renewedBy", "Nobody"}},
		[]string{"spec.lease.renewedBy", `supported values: "Agent"`},
	},
	"unknown overlap policy": {
		[]edit{{"spec.overlapPolicy", "Allow"}},
		[]string{"spec.overlapPolicy", `supported values: "Fence", "Forbid", "Tolerate"`},
	},
	"long name": {
		[]edit{{"metadata.name", strings.Repeat("n", 53)}},
		[]string{"at most 52 characters", "choose a shorter name"},
	},
	"dotted name": {
		[]edit{{"metadata.name", "ledger.writer"}},
		[]string{"must be a DNS label", "remove dots"},
	},
	"lease name that is no label": {
		[]edit{{"spec.lease.name", "Ledger_Writer"}},
		[]string{"spec.lease.name", "lower case letters, digits and '-'"},
	},
	"backoff limit of work that never completes": {
		[]edit{{"spec.backoffLimit", int64(2)}},
		[]string{"spec.backoffLimit", "set restartPolicy to OnFailure or Never, or remove backoffLimit"},
	},
	"backoff limit with restartPolicy Always": {
		[]edit{{"spec.backoffLimit", int64(2)}, {"spec.template.spec.restartPolicy", "Always"}},
		[]string{"spec.backoffLimit", "set restartPolicy to OnFailure or Never, or remove backoffLimit"},
	},
	"unknown restart policy": {
		[]edit{{"spec.template.spec.restartPolicy", "Sometimes"}},
		[]string{"spec.template.spec.restartPolicy", `supported values: "Always", "OnFailure", "Never"`},
	},
	"the node's process namespace": {
		[]edit{{"spec.template.spec.hostPID", true}},
		[]string{"remove spec.template.spec.hostPID"},
	},
	"a node without the scheduler": {
		[]edit{{"spec.template.spec.nodeName", "node-1"}},
		[]string{"remove spec.template.spec.nodeName", "nodeSelector"},
	},
	"token above what stores keep": {
		[]edit{{"spec.lease.minToken", int64(1)<<62 + 1<<20}},
		[]string{"spec.lease.minToken", "less than or equal to"},
	},
}

func TestImpossibleSpecsAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range impossible {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustRefuse(t, api.Create(t.Context(), job(t, c.edits...), client.DryRunAll), c.message...)
		})
	}
}

// TestPossibleSpecsAreAccepted is the negative control: values at the very
// bounds of the rules above.
func TestPossibleSpecsAreAccepted(t *testing.T) {
	t.Parallel()
	for name, edits := range map[string][]edit{
		"nothing but a template":    nil,
		"renew interval of a half":  {{"spec.lease.durationSeconds", int64(10)}, {"spec.lease.renewIntervalSeconds", int64(5)}},
		"shortest duration":         {{"spec.lease.durationSeconds", int64(3)}},
		"named container":           {{"spec.container", "work"}},
		"kubelet, default duration": {{"spec.lease.renewedBy", "Kubelet"}},
		"kubelet, any container":    {{"spec.lease.renewedBy", "Kubelet"}, {"spec.container", "helper"}},
		"kubelet, 40 seconds":       {{"spec.lease.renewedBy", "Kubelet"}, {"spec.lease.durationSeconds", int64(40)}},
		"standbys":                  {{"spec.standbys", int64(10)}},
		"longest name":              {{"metadata.name", strings.Repeat("n", 52)}},
		"lease name":                {{"spec.lease.name", strings.Repeat("l", 63)}},
		"backoff limit":             {{"spec.backoffLimit", int64(2)}, {"spec.template.spec.restartPolicy", "OnFailure"}},
		"greatest token":            {{"spec.lease.minToken", int64(1) << 62}},
		"as many containers as fit": {{"spec.template.spec.containers", containers(64)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := api.Create(t.Context(), job(t, edits...), client.DryRunAll, client.FieldValidation("Strict")); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestLeaseNameCannotBeChanged(t *testing.T) {
	t.Parallel()
	const message = "make a new SingletonJob instead"
	for name, c := range map[string]struct{ before, after any }{
		"changed": {"one", "two"},
		"added":   {nil, "two"},
		"removed": {"one", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			created := job(t, edit{"metadata.name", "lease-name-" + name}, edit{"spec.lease.name", c.before})
			if err := api.Create(t.Context(), created); err != nil {
				t.Fatal(err)
			}
			same := change(t, created.DeepCopy(), edit{"spec.lease.durationSeconds", int64(30)})
			if err := api.Update(t.Context(), same, client.DryRunAll); err != nil {
				t.Errorf("another change: %v", err)
			}
			mustRefuse(t, api.Update(t.Context(), change(t, created, edit{"spec.lease.name", c.after})), message)
		})
	}
}

func containers(n int) []any {
	var list []any
	for i := range n {
		list = append(list, map[string]any{"name": fmt.Sprintf("c%d", i), "image": "work", "command": []any{"/work"}})
	}
	return list
}

func mustRefuse(t *testing.T, err error, parts ...string) {
	t.Helper()
	if !apierrors.IsInvalid(err) {
		t.Fatalf("got %v, want a refusal as invalid", err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the refusal does not say %q:\n%v", part, err)
		}
	}
}
