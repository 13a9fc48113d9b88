// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package smoke

import (
	"context"
	"fmt"
	"strings"
)

func (r *runner) features() []check {
	return []check{
		{"pod runs", func(ctx context.Context) error {
			return r.awaitField(ctx, "pod/web", `.status.conditions[?(@.type=="Ready")].status`, "True")
		}},
		{"service on the same node", r.succeeds("service-same-node")},
		{"service across nodes", r.succeeds("service-other-node")},
		{"service by name", r.succeeds("service-by-name")},
		{"API server from a pod", r.succeeds("api-from-pod")},
		{"image volume", r.succeeds("image-volume")},
		{"native sidecar", r.succeeds("native-sidecar")},
		{"scheduling gate", r.gate},
		{"restart of all containers", r.restartAll},
		{"logs and exec", r.logsAndExec},
		{"no route out", r.noRouteOut},
		{"server of the host within reach of pods", r.exposed},
		{"audit log", r.audited},
	}
}

func (r *runner) succeeds(pod string) func(context.Context) error {
	return func(ctx context.Context) error {
		return r.awaitField(ctx, "pod/"+pod, ".status.phase", "Succeeded")
	}
}

func (r *runner) gate(ctx context.Context) error {
	node, err := r.field(ctx, "pod/scheduling-gate", ".spec.nodeName")
	if err != nil {
		return err
	}
	if node != "" {
		return fmt.Errorf("gated pod was bound to %s", node)
	}
	patch := `[{"op":"test","path":"/spec/schedulingGates/0/name","value":"leasehold.dev/smoke"},{"op":"remove","path":"/spec/schedulingGates/0"}]`
	if _, err := r.kube(ctx, "", "patch", "pod/scheduling-gate", "--type=json", "--patch", patch); err != nil {
		return err
	}
	return r.awaitField(ctx, "pod/scheduling-gate", ".status.phase", "Succeeded")
}

func (r *runner) restartAll(ctx context.Context) error {
	if err := r.awaitField(ctx, "pod/restart-all-containers", ".status.phase", "Succeeded"); err != nil {
		return err
	}
	return r.awaitField(ctx, "pod/restart-all-containers", ".status.initContainerStatuses[0].restartCount", "1")
}

func (r *runner) logsAndExec(ctx context.Context) error {
	logs, err := r.kube(ctx, "", "logs", "api-from-pod")
	if err != nil {
		return err
	}
	if !strings.Contains(logs, ": 200:") {
		return fmt.Errorf("unexpected log: %s", logs)
	}
	out, err := r.kube(ctx, "", "exec", "web", "--", "/probe", "ok")
	if err == nil && out != "ok" {
		err = fmt.Errorf("command in pod says %q", out)
	}
	return err
}

// noRouteOut asks the kernel of each machine for a route to an address that is set
// aside for documentation; it sends nothing.
func (r *runner) noRouteOut(ctx context.Context) error {
	for _, machine := range append([]string{"control"}, r.c.NodeNames()...) {
		cmd, err := r.c.Command(ctx, machine, "ip", "route", "get", "203.0.113.1")
		if err != nil {
			return err
		}
		out, err := cmd.CombinedOutput()
		if err == nil {
			return fmt.Errorf("machine %s has a route out: %s", machine, out)
		}
		if !strings.Contains(string(out), "unreachable") {
			return fmt.Errorf("routes of %s: %w: %s", machine, err, out)
		}
	}
	return nil
}

func (r *runner) audited(context.Context) error {
	if !fileContains(r.c.AuditLog(), `"namespace":"`+namespace+`"`) {
		return fmt.Errorf("audit log %s has nothing on namespace %s", r.c.AuditLog(), namespace)
	}
	return nil
}
