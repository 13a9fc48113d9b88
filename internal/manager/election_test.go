// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package manager

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2/textlogger"
	"sigs.k8s.io/yaml"

	"leasehold.dev/internal/testenv/faultproxy"
	"leasehold.dev/leaderelect/lease"
	"leasehold.dev/test/api/apiserver"
)

const (
	// envChild makes this binary a manager: its value is the API server, and the
	// namespace of the managers' Lease, or "-" for one that is not elected.
	envChild = "MANAGER_TEST_CHILD"
	duration = 3 * time.Second
	patience = time.Minute
)

var api *apiserver.Server

func TestMain(m *testing.M) {
	if at := os.Getenv(envChild); at != "" {
		os.Exit(child(strings.Fields(at)))
	}
	os.Exit(main(m))
}

func main(m *testing.M) int {
	var err error
	if api, err = apiserver.Start(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = api.Stop() }()
	return m.Run()
}

// child is a whole manager, but for what it serves.
func child(at []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	o := Options{AgentImage: "agent", MetricsAddress: "0", ProbeAddress: "0", LeaderElect: at[1] != "-", LeaderElectNS: at[1],
		Logger: textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(os.Stdout))), electionDuration: duration}
	if err := Run(ctx, &rest.Config{Host: at[0], QPS: -1}, o); err != nil {
		fmt.Println("ended:", err)
		return 1
	}
	return 0
}

// process is a manager in a process of its own.
type process struct {
	t     *testing.T
	name  string
	cmd   *exec.Cmd
	proxy *faultproxy.Proxy
	// works is closed when its controllers start; over when it has ended.
	works, over chan struct{}

	mu                   sync.Mutex
	began, ended, exited time.Time
	log                  strings.Builder
}

func start(t *testing.T, name, namespace string) *process {
	t.Helper()
	p := &process{t: t, name: name, proxy: faultproxy.New(t, api.Config), works: make(chan struct{}), over: make(chan struct{}),
		cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), envChild+"="+p.proxy.Config().Host+" "+namespace)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.over)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.says(s.Text())
		}
		_ = p.cmd.Wait() // Its state says how it ended.
		p.mu.Lock()
		defer p.mu.Unlock()
		p.exited = time.Now()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.over
		if t.Failed() {
			t.Logf("manager %s:\n%s", name, p.log.String())
		}
	})
	return p
}

// says notes when the controllers' work begins and ends.
func (p *process) says(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log.WriteString(line + "\n")
	switch {
	case strings.Contains(line, "Starting workers") && p.began.IsZero():
		p.began = time.Now()
		close(p.works)
	case strings.Contains(line, "All workers finished"):
		p.ended = time.Now()
	}
}

func (p *process) wait(event <-chan struct{}, what string) {
	p.t.Helper()
	select {
	case <-event:
	case <-time.After(patience):
		p.t.Fatalf("manager %s, not in time: %s", p.name, what)
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// working reports whether a manager's controllers have started and nothing shows
// that they have ended.
func (p *process) working() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.began.IsZero() && p.ended.IsZero() && p.exited.IsZero()
}

// times are when a manager's work began and ended, at the latest with its process.
func (p *process) times() (began, ended time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended.IsZero() {
		return p.began, p.exited
	}
	return p.began, p.ended
}

func record(t *testing.T, namespace string) lease.Record {
	t.Helper()
	l, err := kubernetes.NewForConfigOrDie(api.Config).CoordinationV1().Leases(namespace).Get(t.Context(), leaseName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r, err := lease.Parse(l)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestOneManagerWorks: a successor starts when the one that works has stopped
// its controllers, and at once; or when a killed one's lease has lapsed.
func TestOneManagerWorks(t *testing.T) {
	const namespace = metav1.NamespaceDefault
	first := start(t, "a", namespace)
	first.wait(first.works, "work")
	second := start(t, "b", namespace)
	// It has asked for the Lease, and again.
	for n := second.proxy.Seen("GET"); second.proxy.Seen("WATCH") == 0 || second.proxy.Seen("GET") < n+3; {
		second.tick()
	}
	if second.working() {
		t.Error("two managers work")
	}
	one := record(t, namespace)
	if one.Phase() != lease.Live || one.Token == 0 || !strings.HasSuffix(one.Issuer, "/"+namespace+"/"+leaseName) {
		t.Errorf("the Lease is %s, token %d of %q", one.Phase(), one.Token, one.Issuer)
	}

	first.signal(syscall.SIGTERM)
	first.wait(first.over, "the end")
	if code := first.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("a clean stop ends with status %d", code)
	}
	second.wait(second.works, "work after a clean stop")
	_, ended := first.times()
	began, _ := second.times()
	if gap := began.Sub(ended); gap < 0 || gap >= duration {
		t.Errorf("the second began %s after the first had ended, want less than a lapse of %s", gap, duration)
	}
	two := record(t, namespace)

	third := start(t, "c", namespace)
	for third.proxy.Seen("GET") < 3 {
		third.tick()
	}
	second.signal(syscall.SIGKILL)
	second.wait(second.over, "the end")
	third.wait(third.works, "work after a kill")
	_, ended = second.times()
	began, _ = third.times()
	// The lease, a look of the successor that came late, and this machine.
	if gap := began.Sub(ended); gap < 0 || gap > duration+2*electionOf(duration).retryPeriod+3*time.Second {
		t.Errorf("the third began %s after the second was killed, with a lease of %s", gap, duration)
	}
	three := record(t, namespace)
	if one.Token >= two.Token || two.Token >= three.Token {
		t.Errorf("tokens %d, %d, %d", one.Token, two.Token, three.Token)
	}
	events, err := kubernetes.NewForConfigOrDie(api.Config).EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(events.Items) == 0 || events.Items[0].Regarding.Name != leaseName {
		t.Errorf("events of the election: %v, %v", events, err)
	}
}

// TestManagerThatIsCutOff ends, and does not come back as a second one.
func TestManagerThatIsCutOff(t *testing.T) {
	const namespace = metav1.NamespacePublic
	first := start(t, "a", namespace)
	first.wait(first.works, "work")
	second := start(t, "b", namespace)
	first.proxy.Freeze()
	second.wait(second.works, "work in place of the one that is cut off")
	first.wait(first.over, "the end")
	first.proxy.Thaw()
	if code := first.cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("status %d after a lost election", code)
	}
	if r := record(t, namespace); r.Phase() != lease.Live {
		t.Errorf("the Lease is %s", r.Phase())
	}
}

// TestManagersThatAreNotElected is the negative control: two that work at once
// are seen to.
func TestManagersThatAreNotElected(t *testing.T) {
	first, second := start(t, "a", "-"), start(t, "b", "-")
	first.wait(first.works, "work")
	second.wait(second.works, "work")
	if !first.working() || !second.working() {
		t.Error("the test does not see two managers that work at once")
	}
}

// tick waits a moment between two looks at what has no event.
func (p *process) tick() {
	p.t.Helper()
	select {
	case <-time.After(10 * time.Millisecond):
	case <-p.over:
		p.t.Fatalf("manager %s has ended", p.name)
	}
}

func TestNamespaceOfTheElection(t *testing.T) {
	file := filepath.Join(t.TempDir(), "namespace")
	if err := os.WriteFile(file, []byte("mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ flag, file, want string }{
		{"", file, "mine"},
		{"other", file, "other"},
		{"other", "gone", "other"},
	} {
		if got, err := (Options{LeaderElectNS: c.flag}).namespace(c.file); err != nil || got != c.want {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
	if _, err := (Options{}).namespace("gone"); err == nil || !strings.Contains(err.Error(), "--leader-election-namespace") {
		t.Errorf("outside of a pod: %v", err)
	}
}

func TestElectionTimes(t *testing.T) {
	if got, want := electionOf(0), (election{15 * time.Second, 10 * time.Second, 2 * time.Second}); got != want {
		t.Errorf("%v, want those of controller-runtime: %v", got, want)
	}
}

// TestPermissionsSuffice: the roles that Leasehold is installed with let a manager
// be elected, and without them it is not.
func TestPermissionsSuffice(t *testing.T) {
	const namespace = "leasehold-system"
	config := rest.CopyConfig(api.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":leasehold-manager",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}}
	elect := func() error {
		l, err := newLock(config, Options{LeaderElectNS: namespace}, &lateRecorder{})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := l.Get(t.Context()); err != nil {
			return err
		}
		return l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity(), LeaseDurationSeconds: 15})
	}
	install(t, "manager/namespace.yaml")
	if err := elect(); err == nil {
		t.Error("anybody may be elected")
	}
	install(t, "rbac/service_account.yaml", "rbac/role.yaml", "rbac/role_binding.yaml", "rbac/leader_election_role.yaml")
	// The API server learns of roles by a watch.
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for err := elect(); err != nil; err = elect() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal(err)
		}
	}
}

// install creates what files of config hold.
func install(t *testing.T, files ...string) {
	t.Helper()
	c, err := api.Client()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(filepath.Join(apiserver.Root(), "config", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range strings.Split(string(raw), "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(doc), &object.Object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if len(object.Object) == 0 {
				continue // A comment.
			}
			if err := c.Create(t.Context(), object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		}
	}
}
