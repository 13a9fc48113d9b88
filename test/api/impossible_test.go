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

// impossible is a job that could never work, its nearest neighbour that can, and
// what the refusal must say: where it is and what to do about it.
type impossible struct {
	edits    []edit
	possible []edit
	message  []string
}

const noCommand = "set command on the container that does the work"

var impossibles = map[string]impossible{
	"renew interval above half of the duration": {
		edits:    ofLease("durationSeconds", 10, "renewIntervalSeconds", 6),
		possible: ofLease("durationSeconds", 10, "renewIntervalSeconds", 5),
		message:  []string{"spec.lease.renewIntervalSeconds", "lower renewIntervalSeconds or raise durationSeconds"},
	},
	"renew interval above half of an odd duration": {
		edits:    ofLease("durationSeconds", 11, "renewIntervalSeconds", 6),
		possible: ofLease("durationSeconds", 11, "renewIntervalSeconds", 5),
		message:  []string{"spec.lease.renewIntervalSeconds", "lower renewIntervalSeconds or raise durationSeconds"},
	},
	"renew interval above half of the shortest duration": {
		edits:    ofLease("durationSeconds", 3, "renewIntervalSeconds", 2),
		possible: ofLease("durationSeconds", 3, "renewIntervalSeconds", 1),
		message:  []string{"spec.lease.renewIntervalSeconds", "lower renewIntervalSeconds or raise durationSeconds"},
	},
	"renew interval above half of the longest duration": {
		edits:    ofLease("durationSeconds", 3599, "renewIntervalSeconds", 1800),
		possible: ofLease("durationSeconds", 3600, "renewIntervalSeconds", 1800),
		message:  []string{"spec.lease.renewIntervalSeconds", "lower renewIntervalSeconds or raise durationSeconds"},
	},
	"renew interval above half of the default duration": {
		edits:    ofLease("renewIntervalSeconds", 8),
		possible: ofLease("renewIntervalSeconds", 7),
		message:  []string{"spec.lease.renewIntervalSeconds", "15 by default"},
	},
	"agent without a command": {
		edits:    work(container{"name": "work", "image": "work"}),
		possible: work(container{"name": "work", "image": "work", "command": []any{"/work"}}),
		message:  []string{"spec.template.spec.containers", noCommand, "choose renewedBy: Kubelet"},
	},
	"agent with arguments alone": {
		edits:    work(container{"name": "work", "image": "work", "args": []any{"/work"}}),
		possible: append(work(container{"name": "work", "image": "work", "args": []any{"/work"}}), ofLease("renewedBy", "Kubelet")...),
		message:  []string{"spec.template.spec.containers", noCommand, "choose renewedBy: Kubelet"},
	},
	"agent with an empty command": {
		edits:    work(container{"name": "work", "image": "work", "command": []any{}}),
		possible: append(work(container{"name": "work", "image": "work", "command": []any{}}), ofLease("renewedBy", "Kubelet")...),
		message:  []string{"spec.template.spec.containers", noCommand},
	},
	"agent with a command without a name": {
		edits:    work(container{"name": "work", "image": "work", "command": []any{"", "x"}}),
		possible: work(container{"name": "work", "image": "work", "command": []any{"x", ""}}),
		message:  []string{"spec.template.spec.containers", noCommand},
	},
	"agent in a container without a command": {
		edits:    []edit{{"spec.container", "helper"}},
		possible: []edit{{"spec.container", "work"}},
		message:  []string{"spec.template.spec.containers", noCommand},
	},
	"unknown container": {
		edits:    []edit{{"spec.container", "absent"}},
		possible: []edit{{"spec.container", "work"}},
		message:  []string{"spec.container", "names no container of spec.template", "leave it out for the first"},
	},
	"unknown container where nothing in the pod renews": {
		edits:    append(ofLease("renewedBy", "Kubelet"), edit{"spec.container", "absent"}),
		possible: append(ofLease("renewedBy", "Kubelet"), edit{"spec.container", "helper"}),
		message:  []string{"spec.container", "names no container of spec.template"},
	},
	"init container that does the work": {
		edits:    append(sidecar(), edit{"spec.container", "before"}),
		possible: sidecar(),
		message:  []string{"spec.container", "use the name of one of spec.template.spec.containers"},
	},
	"standbys that nobody in the pod can wait for": {
		edits:    append(ofLease("renewedBy", "Kubelet"), edit{"spec.standbys", int64(1)}),
		possible: append(ofLease("renewedBy", "Kubelet"), edit{"spec.standbys", int64(0)}),
		message:  []string{"spec.standbys", "set standbys to 0, or choose renewedBy: Agent"},
	},
	"duration that kubelets cannot keep": {
		edits:    ofLease("renewedBy", "Kubelet", "durationSeconds", 39),
		possible: ofLease("renewedBy", "Kubelet", "durationSeconds", 40),
		message:  []string{"spec.lease.durationSeconds", "40 or more", "raise durationSeconds"},
	},
	"the agent's default duration for kubelets": {
		edits:    ofLease("renewedBy", "Kubelet", "durationSeconds", 15),
		possible: ofLease("renewedBy", "Kubelet"),
		message:  []string{"spec.lease.durationSeconds", "40 or more", "choose renewedBy: Agent"},
	},
	"renew interval where nothing renews": {
		edits:    ofLease("renewedBy", "Kubelet", "durationSeconds", 40, "renewIntervalSeconds", 10),
		possible: ofLease("renewedBy", "Agent", "durationSeconds", 40, "renewIntervalSeconds", 10),
		message:  []string{"spec.lease.renewIntervalSeconds", "remove renewIntervalSeconds"},
	},
	"sidecar": {
		edits:    ofLease("renewedBy", "Sidecar"),
		possible: ofLease("renewedBy", "Kubelet"),
		message:  []string{"spec.lease.renewedBy", "not available yet", "choose Agent"},
	},
	"application": {
		edits:    ofLease("renewedBy", "Application"),
		possible: ofLease("renewedBy", "Agent"),
		message:  []string{"spec.lease.renewedBy", "not available yet", "choose Agent"},
	},
	"unknown renewer": {
		edits:    ofLease("renewedBy", "agent"),
		possible: ofLease("renewedBy", "Agent"),
		message:  []string{"spec.lease.renewedBy", `supported values: "Agent"`},
	},
	"unknown overlap policy": {
		edits:    []edit{{"spec.overlapPolicy", "Allow"}},
		possible: []edit{{"spec.overlapPolicy", "Tolerate"}},
		message:  []string{"spec.overlapPolicy", `supported values: "Fence", "Forbid", "Tolerate"`},
	},
	"backoff limit of work that never completes": {
		edits:    []edit{{"spec.backoffLimit", int64(2)}},
		possible: []edit{{"spec.backoffLimit", int64(2)}, {"spec.template.spec.restartPolicy", "Never"}},
		message:  []string{"spec.backoffLimit", "set restartPolicy to OnFailure or Never, or remove backoffLimit"},
	},
	"backoff limit with restartPolicy Always": {
		edits:    []edit{{"spec.backoffLimit", int64(0)}, {"spec.template.spec.restartPolicy", "Always"}},
		possible: []edit{{"spec.backoffLimit", int64(0)}, {"spec.template.spec.restartPolicy", "OnFailure"}},
		message:  []string{"spec.backoffLimit", "set restartPolicy to OnFailure or Never, or remove backoffLimit"},
	},
	"unknown restart policy": {
		edits:    []edit{{"spec.template.spec.restartPolicy", "Sometimes"}},
		possible: []edit{{"spec.template.spec.restartPolicy", "Always"}},
		message:  []string{"spec.template.spec.restartPolicy", `supported values: "Always", "OnFailure", "Never"`},
	},
	"the node's process namespace": {
		edits:    []edit{{"spec.template.spec.hostPID", true}},
		possible: []edit{{"spec.template.spec.hostPID", false}},
		message:  []string{"spec.template.spec.hostPID", "remove spec.template.spec.hostPID"},
	},
	"a node without the scheduler": {
		edits:    []edit{{"spec.template.spec.nodeName", "node-1"}},
		possible: []edit{{"spec.template.spec.nodeSelector", map[string]any{"kubernetes.io/hostname": "node-1"}}},
		message:  []string{"spec.template.spec.nodeName", "remove spec.template.spec.nodeName", "nodeSelector"},
	},
	"no template": {
		edits:    []edit{{"spec.template", nil}},
		possible: []edit{{"spec.lease", nil}, {"spec.container", nil}},
		message:  []string{"spec.template: Required value"},
	},
	"no spec": {
		edits:    []edit{{"spec", nil}},
		possible: []edit{{"status", nil}},
		message:  []string{"spec: Required value"},
	},
	"template without a spec": {
		edits:    []edit{{"spec.template", map[string]any{}}},
		possible: []edit{{"spec.template.metadata", map[string]any{}}},
		message:  []string{"spec.template.spec: Required value"},
	},
	"no containers": {
		edits:    work(),
		possible: work(containers(1)...),
		message:  []string{"spec.template.spec.containers", "at least 1"},
	},
	"more containers than the rules can look at": {
		edits:    work(containers(65)...),
		possible: work(containers(64)...),
		message:  []string{"spec.template.spec.containers", "at most 64"},
	},
	"two containers of one name": {
		edits:    work(append(containers(1), containers(1)...)...),
		possible: work(containers(2)...),
		message:  []string{"spec.template.spec.containers[1]: Duplicate value"},
	},
	"no image": {
		edits:    work(container{"name": "work", "command": []any{"/work"}}),
		possible: work(container{"name": "work", "image": "w", "command": []any{"/work"}}),
		message:  []string{"spec.template.spec.containers[0].image: Required value"},
	},
	"empty image": {
		edits:    work(container{"name": "work", "image": "", "command": []any{"/work"}}),
		possible: work(container{"name": "work", "image": "w", "command": []any{"/work"}}),
		message:  []string{"spec.template.spec.containers[0].image", "at least 1 chars"},
	},
	"no image to begin with": {
		edits:    []edit{{"spec.template.spec.initContainers", []any{container{"name": "before"}}}},
		possible: []edit{{"spec.template.spec.initContainers", []any{container{"name": "before", "image": "w"}}}},
		message:  []string{"spec.template.spec.initContainers[0].image: Required value"},
	},
}

type container = map[string]any

// work replaces the containers of the template.
func work(list ...any) []edit {
	return []edit{{"spec.template.spec.containers", append([]any{}, list...)}}
}

// sidecar adds a native sidecar.
func sidecar() []edit {
	return []edit{{"spec.template.spec.initContainers", []any{
		container{"name": "before", "image": "w", "restartPolicy": "Always", "command": []any{"/before"}}}}}
}

// ofLease sets fields of spec.lease: name, value, name, value.
func ofLease(pairs ...any) []edit {
	var edits []edit
	for i := 0; i < len(pairs); i += 2 {
		value := pairs[i+1]
		if n, ok := value.(int); ok {
			value = int64(n)
		}
		edits = append(edits, edit{"spec.lease." + pairs[i].(string), value})
	}
	return edits
}

func containers(n int) []any {
	var list []any
	for i := range n {
		list = append(list, container{"name": fmt.Sprintf("c%d", i), "image": "work", "command": []any{"/work"}})
	}
	return list
}

func TestImpossibleSpecsAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range impossibles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustRefuse(t, tryCreate(t, c.edits...), c.message...)
			if err := tryCreate(t, c.possible...); err != nil {
				t.Errorf("the nearest that can work is refused: %v", err)
			}
		})
	}
}

// tryCreate creates a job with the edits, as kubectl would, and keeps nothing.
func tryCreate(t *testing.T, edits ...edit) error {
	t.Helper()
	return api.Create(t.Context(), job(t, edits...), client.DryRunAll, client.FieldValidation("Strict"))
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
