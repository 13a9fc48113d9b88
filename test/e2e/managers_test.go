// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/test/harness"
)

// testRollingRestart: a new manager changes nothing for a holder.
func testRollingRestart(t *testing.T) {
	w := newWorld(t)
	const name = "steady"
	w.create(name)
	s := w.working(name, 0, time.Minute)
	w.kubectl("-n", harness.Namespace, "rollout", "restart", "deployment", harness.Deployment)
	if err := w.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Whoever thought that the lease had lapsed meanwhile would show it by now.
	w.nothingNew(name, s.Token, 8*time.Second)
	w.alive(name, s)
}

// testCrashes: the manager is killed right after a write, before it hears of its
// success, again and again through all that a job goes through. It always finds
// its way from there, and leaves nothing behind.
func testCrashes(t *testing.T) {
	for name, writes := range map[string]int{"AfterEveryWrite": 1, "AfterEverySecondWrite": 2} {
		t.Run(name, func(t *testing.T) { crash(t, writes) })
	}
}

func crash(t *testing.T, writes int) {
	w := newWorld(t)
	w.withoutManager()
	m := w.runManagers(1, fmt.Sprintf("--crash-after=%d", writes))
	life := w.create("life")
	once := w.create("once", restart(corev1.RestartPolicyNever), probe("-exit-after", "1s"))
	s := w.working("life", 0, 2*time.Minute)
	w.held("life", 0, time.Minute)
	pod, _ := podOf(s.Holder)
	w.killWork(pod, s.PID)
	s = w.working("life", s.Token, 2*time.Minute)
	w.held("life", 0, time.Minute)
	pod, _ = podOf(s.Holder)
	w.deletePod(pod)
	s = w.working("life", s.Token, 2*time.Minute)
	w.held("life", s.Token-1, time.Minute)
	w.condition("once", v1alpha1.ConditionComplete, "", 2*time.Minute)
	w.count("once", 1)
	for _, job := range []*v1alpha1.SingletonJob{life, once} {
		if err := w.Client.Delete(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	w.gone(3*time.Minute, life, once)
	w.nothingLeft("life")
	w.nothingLeft("once")
	m.stop()
	if len(m.crashes) < 30/writes {
		t.Errorf("the manager crashed %d times only; the test has lost its point", len(m.crashes))
	}
	t.Logf("measured: the manager was killed %d times, after %s", len(m.crashes), strings.Join(m.kinds(), ", "))
}

// testTwoAtOnce: two managers that do not elect one of them, under churn.
func testTwoAtOnce(t *testing.T) {
	w := newWorld(t)
	w.withoutManager()
	m := w.runManagers(2, "--crash-after=0", "--leader-elect=false")
	const name, churns = "contested", 10
	job := w.create(name, grace(1))
	s := w.working(name, 0, time.Minute)
	began := time.Now()
	for i := range churns {
		pod, _ := podOf(s.Holder)
		switch i % 3 {
		case 0:
			w.killWork(pod, s.PID)
		case 1:
			w.deletePod(pod, client.GracePeriodSeconds(0))
		case 2:
			w.deletePod(pod)
		}
		s = w.working(name, s.Token, time.Minute)
	}
	w.measured("one churn under two managers", time.Since(began)/churns)
	w.held(name, s.Token-1, 10*time.Second)
	w.count(name, churns+1)
	if err := w.Client.Delete(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	w.gone(time.Minute, job)
	w.nothingLeft(name)
	m.stop()
}

// withoutManager takes the manager of the cluster away until the case ends.
func (w *world) withoutManager() {
	w.Helper()
	scale := func(ctx context.Context, to string) error {
		_, err := w.Kubectl(ctx, "-n", harness.Namespace, "scale", "deployment", harness.Deployment, "--replicas="+to)
		return err
	}
	replicas := w.kubectl("-n", harness.Namespace, "get", "deployment", harness.Deployment, "-o", "jsonpath={.spec.replicas}")
	w.Cleanup(func() {
		ctx := context.WithoutCancel(w.Context())
		if err := scale(ctx, replicas); err != nil {
			w.Error(err)
		} else if err := w.Ready(ctx); err != nil {
			w.Error(err)
		}
	})
	if err := scale(w.Context(), "0"); err != nil {
		w.Fatal(err)
	}
	w.kubectl("-n", harness.Namespace, "wait", "--for=delete", "pods", "-l", "app.kubernetes.io/component=manager", "--timeout=60s")
}

// managers run on this machine, as the manager's service account, and are
// started again whenever they end.
type managers struct {
	w       *world
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	crashes []string // After which write.
}

func (w *world) runManagers(n int, args ...string) *managers {
	w.Helper()
	args = append([]string{"--kubeconfig=" + w.managerConfig(), "--metrics-bind-address=0", "--health-probe-bind-address=0"}, args...)
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	m := &managers{w: w, cancel: cancel}
	for i := range n {
		m.running.Go(func() {
			for ctx.Err() == nil {
				m.run(ctx, i, args)
			}
		})
	}
	w.Cleanup(m.stop)
	return m
}

func (m *managers) stop() { m.cancel(); m.running.Wait() }

// run runs one manager until it ends or ctx does.
func (m *managers) run(ctx context.Context, i int, args []string) {
	cmd := exec.CommandContext(ctx, m.w.crashing, args...)
	out, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		m.w.Errorf("manager %d: %v", i, err)
		m.cancel()
		return
	}
	var tail []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		tail = append(tail[max(0, len(tail)-20):], lines.Text())
		if write, ok := strings.CutPrefix(lines.Text(), "CRASHED AFTER "); ok {
			m.mu.Lock()
			m.crashes = append(m.crashes, write)
			m.mu.Unlock()
			m.w.Logf("%s manager %d crashed after %s", time.Now().UTC().Format("15:04:05.000"), i, write)
		}
	}
	if _ = cmd.Wait(); ctx.Err() == nil && cmd.ProcessState.ExitCode() != 137 {
		m.w.Errorf("manager %d ended by itself: %v\n%s", i, cmd.ProcessState, strings.Join(tail, "\n"))
		m.cancel()
	}
}

var objectName = regexp.MustCompile(`/(namespaces|pods|leases|singletonjobs|roles|rolebindings)/[^/]+`)

// kinds counts the writes after which managers crashed, by what they wrote.
func (m *managers) kinds() []string {
	count := map[string]int{}
	for _, write := range m.crashes {
		count[objectName.ReplaceAllString(write, "/$1/…")]++
	}
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		kinds = append(kinds, fmt.Sprintf("%d × %s", count[kind], kind))
	}
	return kinds
}

// managerConfig makes a kubeconfig for the manager's service account, so that
// roles and policies apply.
func (w *world) managerConfig() string {
	w.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: harness.Namespace, Name: "leasehold-manager"}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
	if err := w.Client.SubResource("token").Create(w.Context(), account, request); err != nil {
		w.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(w.Kubeconfig())
	if err != nil {
		w.Fatal(err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	}
	file := filepath.Join(w.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		w.Fatal(err)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		w.Fatal(err)
	}
	return file
}
