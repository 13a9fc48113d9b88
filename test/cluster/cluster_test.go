// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"leasehold.dev/test/cluster/internal/pki"
	"leasehold.dev/test/cluster/internal/process"
)

// home gives the test a cache directory of its own and no cluster of KUBECONFIG.
func home(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"HOME", "XDG_CACHE_HOME", "LocalAppData"} {
		t.Setenv(name, dir)
	}
	t.Setenv("KUBECONFIG", "")
}

func TestConfigDefaults(t *testing.T) {
	got, err := Config{}.withDefaults()
	if err != nil || got.Name != "dev" || got.Nodes != 2 || got.Log == nil {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, bad := range []Config{{Name: "Dev"}, {Name: "../x"}, {Name: "-a"}, {Name: strings.Repeat("a", 23)}, {Nodes: -1}, {Nodes: 41}} {
		if _, err := bad.withDefaults(); err == nil {
			t.Errorf("config %+v is taken", bad)
		}
	}
}

func TestStateSurvivesSaveAndLoad(t *testing.T) {
	dir := t.TempDir()
	s, err := loadState(dir, kindCluster, "x")
	if err != nil || s.exists() {
		t.Fatalf("state of nothing: %+v, %v", s, err)
	}
	s.Nodes = planNodes(2)
	s.Cuts["node-1"] = CutAll
	s.Processes["control/etcd"] = &process.Process{PID: 1, Birth: "never"}
	if err := s.save(dir); err != nil {
		t.Fatal(err)
	}
	got, err := loadState(dir, kindCluster, "x")
	if err != nil || !got.exists() || got.Nodes[1].IP != "10.221.0.12" || got.Cuts["node-1"] != CutAll {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestBrokenStateIsAnError(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, stateFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loadState(dir, kindCluster, "x"); err == nil {
		t.Error("broken state: want an error")
	}
}

func TestStatusShowsWhatIsAmiss(t *testing.T) {
	s := newState(kindCluster, "x")
	s.Processes["control/etcd"] = &process.Process{PID: 1, Birth: "never"}
	s.Cuts["node-1"], s.Frozen["node-2"] = CutAll, true
	for _, want := range []string{"control/etcd", "NOT RUNNING", "CUT OFF from everything", "FROZEN"} {
		if !strings.Contains(s.table(), want) {
			t.Errorf("status lacks %q:\n%s", want, s.table())
		}
	}
	if dead := s.dead(); len(dead) != 1 || dead[0] != "control/etcd" {
		t.Errorf("dead: got %v", dead)
	}
}

func TestDownOrderEndsTheStoreLast(t *testing.T) {
	got := downOrder([]string{"control/etcd", "control/kube-apiserver", "host/api"})
	if want := "control/kube-apiserver host/api control/etcd"; strings.Join(got, " ") != want {
		t.Errorf("got %v", got)
	}
}

func TestExistingCluster(t *testing.T) {
	home(t)
	c, err := load(kindCluster, Config{})
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(filepath.Dir(c.Dir()), "cluster-other", "kubeconfig")
	for named, want := range map[string]bool{"": false, own: false, c.Kubeconfig(): false, "/elsewhere/kubeconfig": true} {
		t.Setenv("KUBECONFIG", named)
		c.existing = ""
		if got := c.useExisting(); got != want {
			t.Errorf("KUBECONFIG %q: existing %v, want %v", named, got, want)
		}
	}
}

func TestControlLinksHaveNoRouteOut(t *testing.T) {
	nodes := planNodes(3)
	text := controlLinks(nodes, map[string]int{"node-1": 7, "node-2": 8, "node-3": 9})
	for _, n := range nodes {
		text += nodeLinks(n, nodes)
	}
	if !strings.Contains(text, "link add node-2 type veth peer name eth0 netns 8\n") {
		t.Errorf("no cable to node-2 in:\n%s", text)
	}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if fields[0] == "route" && !strings.HasPrefix(fields[2], "10.221.") {
			t.Errorf("route leaves the cluster: %s", line)
		}
	}
	if !strings.Contains(nodeLinks(nodes[0], nodes), "route add 10.221.67.0/24 via 10.221.0.13\n") {
		t.Error("node-1 has no route to the pods of node-3")
	}
	if strings.Contains(nodeLinks(nodes[0], nodes), "route add 10.221.65.0/24") {
		t.Error("node-1 sends packets to its own pods elsewhere")
	}
}

func TestCutRules(t *testing.T) {
	n := planNodes(1)[0]
	sources := map[string]bool{}
	for _, r := range cutRules(n, CutAPI) {
		text := strings.Join(r.arguments("-I"), " ")
		if r.machine != control || !strings.HasSuffix(text, "-j DROP") || !strings.Contains(text, APIServerIP+"/32") {
			t.Errorf("rule %s on %s", text, r.machine)
		}
		if strings.Contains(text, ServicesIP+"/") {
			t.Errorf("rule %s also cuts other servers off", text)
		}
		sources[r.chain+" "+strings.Join(r.match, " ")] = true
	}
	if len(sources) != 4 {
		t.Errorf("want both directions for node and pods, got %v", sources)
	}
	for _, r := range cutRules(n, CutAll) {
		if r.machine != n.Name {
			t.Errorf("cut from everything reaches %s", r.machine)
		}
	}
}

func TestRunningTasks(t *testing.T) {
	got := runningTasks("TASK    PID    STATUS\nabc     12     RUNNING\ndef     13     STOPPED\nghi 14 PAUSED\n")
	if len(got) != 2 || got["abc"] != 12 || got["ghi"] != 14 {
		t.Errorf("got %v", got)
	}
}

func TestContainerFilter(t *testing.T) {
	got := containerFilter("ns", "web", "")
	if !strings.Contains(got, `labels."io.cri-containerd.kind"=="container"`) || !strings.Contains(got, `labels."io.kubernetes.pod.name"=="web"`) {
		t.Errorf("got %s", got)
	}
	if strings.Contains(got, "container.name") || !strings.Contains(containerFilter("ns", "web", "c"), `container.name"=="c"`) {
		t.Error("name of container")
	}
}

func TestNodeFiles(t *testing.T) {
	files := nodeFiles{
		caFile: "/pki/ca.crt", serving: pki.Pair{Cert: "/pki/n.crt", Key: "/pki/n.key"}, resolvConf: "/resolv",
		runc: "/bin/runc", plugins: "/plugins", networks: "/networks", snapshotter: "overlayfs",
	}
	for _, want := range []string{`resolvConf: "/resolv"`, "failCgroupV1: false", `nodefs.available: "0%"`, `tlsCertFile: "/pki/n.crt"`} {
		if !strings.Contains(kubeletConfig(files), want) {
			t.Errorf("kubelet lacks %s in:\n%s", want, kubeletConfig(files))
		}
	}
	for _, want := range []string{`sandbox = "` + pauseRef + `"`, `BinaryName = "/bin/runc"`, `bin_dirs = ["/plugins"]`} {
		if !strings.Contains(containerdConfig(files), want) {
			t.Errorf("containerd lacks %s in:\n%s", want, containerdConfig(files))
		}
	}
	for name, text := range map[string]string{"kubelet": kubeletConfig(files), "containerd": containerdConfig(files)} {
		if strings.Contains(text, "%!") {
			t.Errorf("%s is rendered wrongly:\n%s", name, text)
		}
	}
}

func TestNetworkConfig(t *testing.T) {
	text, err := networkConfig(planNodes(2)[1])
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Plugins []struct {
			Type string
			IPAM struct{ Ranges [][]struct{ Subnet string } }
		}
	}
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	if config.Plugins[0].Type != "ptp" || config.Plugins[0].IPAM.Ranges[0][0].Subnet != "10.221.66.0/24" {
		t.Errorf("got %s", text)
	}
}

func TestControlPlaneArguments(t *testing.T) {
	home(t)
	c, err := load(kindCluster, Config{})
	if err != nil {
		t.Fatal(err)
	}
	ca, err := c.authority()
	if err != nil {
		t.Fatal(err)
	}
	plan := controlPlane{bind: "127.0.0.1", advertise: "127.0.0.1", hosts: []string{"127.0.0.1"}, etcdPort: 1, peerPort: 2, apiPort: 3, loopbackOnly: true}
	apiserver, err := apiserverSpec(c, ca, plan, "/bin/kube-apiserver")
	if err != nil {
		t.Fatal(err)
	}
	etcd, err := etcdSpec(c, ca, plan, "/bin/etcd")
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range []process.Spec{apiserver, etcd} {
		text := strings.Join(spec.Args, " ")
		if strings.Contains(text, "0.0.0.0") {
			t.Errorf("%s listens everywhere: %s", spec.Path, text)
		}
	}
	if text := strings.Join(apiserver.Args, " "); !strings.Contains(text, "--authorization-mode=Node,RBAC") || !strings.Contains(text, "--endpoint-reconciler-type=none") {
		t.Errorf("API server: %s", text)
	}
	if policy, err := os.ReadFile(c.path("audit-policy.yaml")); err != nil || !strings.Contains(string(policy), "kind: Policy") {
		t.Errorf("audit policy: %v", err)
	}
}

func TestFaultsOnOthersClustersAreRefused(t *testing.T) {
	home(t)
	t.Setenv("KUBECONFIG", "/elsewhere/kubeconfig")
	c, err := Open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	_, dialErr := c.Dial(ctx, "tcp", "10.221.0.1:1")
	_, forwardErr := c.Forward(ctx, "10.221.0.1:1")
	_, commandErr := c.Command(ctx, "node-1", "true")
	for name, err := range map[string]error{
		"freeze": c.Freeze(ctx, "a", "b", ""), "cut": c.Cut(ctx, "node-1", CutAPI), "heal": c.Heal(ctx, "node-1"),
		"stop": c.Stop(ctx, "node-1"), "start": c.Start(ctx, "node-1"), "freeze node": c.FreezeNode(ctx, "node-1"),
		"import": c.ImportImages(ctx, "x"), "dial": dialErr, "forward": forwardErr, "command": commandErr,
	} {
		if err == nil || !strings.Contains(err.Error(), "KUBECONFIG") {
			t.Errorf("%s: got %v, want an error that names KUBECONFIG", name, err)
		}
	}
}

func TestOpenOfNothing(t *testing.T) {
	home(t)
	if _, err := Open(Config{}); err == nil {
		t.Error("want an error")
	}
	if err := DownControlPlane(t.Context(), Config{Log: os.Stderr}); err != nil {
		t.Errorf("down of nothing: %v", err)
	}
}
