// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	grace     = "spec.template.spec.terminationGracePeriodSeconds"
	ownPolicy = "remove restartPolicy and restartPolicyRules from that container"
	hidden    = "choose another mountPath"
	year      = int64(365 * 24 * 60 * 60)
)

// impossiblePods are templates that would pass as pods, or fail as pods, and never
// do their work; and what would end it.
var impossiblePods = map[string]impossible{
	"work that restarts by a policy of its own": {
		edits:    append(work(with("restartPolicy", "Always"), helper()), ofPod("restartPolicy", "Never")...),
		possible: append(work(with(), helper("restartPolicy", "Always")), ofPod("restartPolicy", "Never")...),
		message:  []string{"spec.template.spec.containers", ownPolicy, "set spec.template.spec.restartPolicy"},
	},
	"named work that restarts by a policy of its own": {
		edits: append(work(helper(), with("restartPolicy", "OnFailure")),
			edit{"spec.container", "work"}, edit{"spec.template.spec.restartPolicy", "OnFailure"}),
		possible: append(append(work(helper("restartPolicy", "Never"), with()), sidecar()...),
			edit{"spec.container", "work"}, edit{"spec.template.spec.restartPolicy", "OnFailure"}),
		message: []string{"spec.template.spec.containers", ownPolicy},
	},
	"work that never restarts in a pod that always does": {
		edits:    work(with("restartPolicy", "Never")),
		possible: append(work(with()), sidecar()...),
		message:  []string{"spec.template.spec.containers", ownPolicy},
	},
	"work that restarts by rules of its own": {
		edits:    append(work(with("restartPolicyRules", restartRules())), ofPod("restartPolicy", "Never")...),
		possible: append(work(with("restartPolicyRules", []any{})), ofPod("restartPolicy", "Never")...),
		message:  []string{"spec.template.spec.containers", ownPolicy},
	},
	"work without an agent that restarts by a policy of its own": {
		edits: append(append(work(with("restartPolicy", "Always")), ofPod("restartPolicy", "Never")...),
			ofLease("renewedBy", "Kubelet")...),
		possible: append(append(work(with()), ofPod("restartPolicy", "Never")...), ofLease("renewedBy", "Kubelet")...),
		message:  []string{"spec.template.spec.containers", ownPolicy},
	},
	"the processes of all containers": {
		edits:    ofPod("shareProcessNamespace", true),
		possible: ofPod("shareProcessNamespace", false),
		message:  []string{"spec.template.spec.shareProcessNamespace", "remove spec.template.spec.shareProcessNamespace"},
	},
	"the processes of all containers under an agent that is asked for": {
		edits:    append(ofPod("shareProcessNamespace", true), ofLease("renewedBy", "Agent")...),
		possible: append(ofPod("shareProcessNamespace", true), ofLease("renewedBy", "Kubelet")...),
		message:  []string{"spec.template.spec.shareProcessNamespace", "choose renewedBy: Kubelet"},
	},
	"another operating system": {
		edits:    ofPod("os", map[string]any{"name": "windows"}),
		possible: ofPod("os", map[string]any{"name": "linux"}),
		message:  []string{"spec.template.spec.os", "remove spec.template.spec.os"},
	},
	"another operating system for the agent": {
		edits:    ofPod("os", map[string]any{"name": "windows"}),
		possible: append(ofPod("os", map[string]any{"name": "windows"}), ofLease("renewedBy", "Kubelet")...),
		message:  []string{"spec.template.spec.os", "choose renewedBy: Kubelet"},
	},
	"less than no time to stop": {
		edits:    ofPod("terminationGracePeriodSeconds", int64(-1)),
		possible: ofPod("terminationGracePeriodSeconds", int64(0)),
		message:  []string{grace, "set it to 0 or more"},
	},
	"more than a year to stop": {
		edits:    ofPod("terminationGracePeriodSeconds", year+1),
		possible: ofPod("terminationGracePeriodSeconds", year),
		message:  []string{grace, "at most 31536000 (a year)"},
	},
	"no end of time to stop": {
		edits:    ofPod("terminationGracePeriodSeconds", int64(1<<63-1)),
		possible: ofPod("terminationGracePeriodSeconds", int64(1)),
		message:  []string{grace, "at most 31536000 (a year)"},
	},
	"no time to run": {
		edits:    ofPod("activeDeadlineSeconds", int64(0)),
		possible: ofPod("activeDeadlineSeconds", int64(1)),
		message:  []string{"spec.template.spec.activeDeadlineSeconds", "greater than or equal to 1"},
	},
	"more time to run than a pod can have": {
		edits:    ofPod("activeDeadlineSeconds", int64(1<<31)),
		possible: ofPod("activeDeadlineSeconds", int64(1<<31-1)),
		message:  []string{"spec.template.spec.activeDeadlineSeconds", "less than or equal to 2147483647"},
	},
	"more mounts than the rules can look at": {
		edits:    work(with("volumeMounts", mounts(129))),
		possible: work(with("volumeMounts", mounts(128))),
		message:  []string{"spec.template.spec.containers[0].volumeMounts", "at most 128"},
	},
	"a longer path than the rules can look at": {
		edits:    mountAt("/" + strings.Repeat("p", 2048)),
		possible: mountAt("/" + strings.Repeat("p", 2047)),
		message:  []string{"spec.template.spec.containers[0].volumeMounts[0].mountPath", "may not be more than 2048"},
	},
	"a least token that leaves no room for the next": {
		edits:    ofLease("minToken", int64(1<<61+1)),
		possible: ofLease("minToken", int64(1<<61)),
		message:  []string{"spec.lease.minToken", "at most 2305843009213693952 (2^61)", "lower minToken"},
	},
	"a mount over the agent of named work": {
		edits:    append(work(helper(), with("volumeMounts", mounts(1, "/.leasehold"))), edit{"spec.container", "work"}),
		possible: append(work(helper("volumeMounts", mounts(1, "/.leasehold")), with()), edit{"spec.container", "work"}),
		message:  []string{"spec.template.spec.containers", hidden},
	},
	"a mount over an agent that is not there": {
		edits:    mountAt("/.leasehold"),
		possible: append(mountAt("/.leasehold"), ofLease("renewedBy", "Kubelet")...),
		message:  []string{"spec.template.spec.containers", hidden},
	},
}

// overAgent are paths that, once cleaned, are the agent's, or above or below it;
// and what is only like them.
var overAgent = map[string]string{
	"/.leasehold":               "/.leasehold2",
	"/.leasehold/":              "/leasehold/",
	"/.leasehold/agent":         "/data/.leasehold",
	"/.leasehold/agent/":        "/..leasehold/agent",
	"//.leasehold":              "/data//.leasehold",
	"/./.leasehold//agent":      "/data/./.leasehold",
	".leasehold":                "leasehold",
	".leasehold/agent":          ".leaseholder/agent",
	"./.leasehold/x":            "data./.leasehold/x",
	"/":                         "/data",
	"/.":                        "/.data",
	".":                         ".data",
	"..":                        "...",
	"//./":                      "/data//./",
	"/data/../.leasehold":       "/data/..x/.leasehold",
	"/data/..":                  "/data/...",
	"../.leasehold":             "..data/.leasehold",
	"/.leasehold/../.leasehold": "/x/.leasehold/y",
}

func init() {
	for path, like := range overAgent {
		impossiblePods["a mount at "+path] = impossible{
			edits: mountAt(path), possible: mountAt(like), message: []string{"spec.template.spec.containers", hidden}}
	}
	maps.Copy(impossibles, impossiblePods)
}

// ofPod sets a field of the template's spec.
func ofPod(field string, value any) []edit {
	return []edit{{"spec.template.spec." + field, value}}
}

// with is a container that works, with further fields: name, value, name, value.
func with(pairs ...any) container {
	c := container{"name": "work", "image": "work", "command": []any{"/work"}}
	for pair := range slices.Chunk(pairs, 2) {
		c[pair[0].(string)] = pair[1]
	}
	return c
}

// helper is a container beside it.
func helper(pairs ...any) container {
	c := with(pairs...)
	c["name"] = "helper"
	return c
}

func restartRules() []any {
	return []any{map[string]any{"action": "Restart", "exitCodes": map[string]any{"operator": "In", "values": []any{int64(42)}}}}
}

// mounts are n mounts; the first of them at the paths that are given.
func mounts(n int, paths ...string) []any {
	var list []any
	for i := range n {
		path := fmt.Sprintf("/data/%d", i)
		if i < len(paths) {
			path = paths[i]
		}
		list = append(list, map[string]any{"name": "data", "mountPath": path})
	}
	return list
}

func mountAt(path string) []edit { return work(with("volumeMounts", mounts(1, path))) }
