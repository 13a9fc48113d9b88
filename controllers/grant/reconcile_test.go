// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

func TestAGrantStampsTheTokenAndTakesTheGateInOneWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createLease()
	a := w.createPod("a", cold)
	changes, err := w.api.Watch(t.Context(), &corev1.PodList{}, client.InNamespace(w.key.Namespace),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: a.ResourceVersion}})
	w.must(err)
	defer changes.Stop()
	observed := w.lease().ResourceVersion

	r := w.instance()
	w.reconcile(r)

	record := w.held("a")
	if strconv.FormatInt(record.Token, 10) != observed {
		t.Errorf("token %d, want the observed resourceVersion %s", record.Token, observed)
	}
	if want := "cluster/" + w.key.Namespace + "/ledger"; record.Issuer != want {
		t.Errorf("issuer %s, want %s", record.Issuer, want)
	}
	e := <-changes.ResultChan()
	if p, ok := e.Object.(*corev1.Pod); !ok || e.Type != watch.Modified || len(p.Spec.SchedulingGates) != 0 ||
		p.Annotations[v1alpha1.AnnotationToken] != observed {
		t.Errorf("the first change of the pod is not stamp and gate together: %v %v", e.Type, e.Object)
	}
	if said := spoken(r); len(said) != 1 || !strings.Contains(said[0], "Granted to pod a with fencing token "+observed) {
		t.Errorf("events: %q", said)
	}
	if out := kubectl(t, w, "get", "lease", "ledger"); !strings.Contains(out, lease.Holder("a", string(a.UID))) {
		t.Errorf("kubectl shows:\n%s", out)
	}
	w.settle(r)
}

// kubectl runs the real one, beside the API server's programs.
func kubectl(t *testing.T, w *world, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	w.must(clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "test",
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "test", Namespace: w.key.Namespace}},
		Clusters:       map[string]*clientcmdapi.Cluster{"test": {Server: Config.Host, CertificateAuthorityData: Config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"test": {ClientCertificateData: Config.CertData, ClientKeyData: Config.KeyData}},
	}, file))
	out, err := exec.CommandContext(t.Context(), kubectlPath(), append([]string{"--kubeconfig", file}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func TestATermGoesFromGrantToLapseToTheNext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createLease()
	w.createPod("a", onNode("node-1"))
	w.createPod("b", cold)
	r := w.instance()
	w.reconcile(r)
	first := w.held("a").Token
	w.waits("b")
	w.confirm()
	for range 10 { // Renewals keep it.
		w.reconcile(r)
		w.clock.Step(term - time.Second)
		w.confirm()
	}
	w.reconcile(r)
	w.clock.Step(term - time.Millisecond)
	w.settle(r)
	w.held("a")
	w.waits("b")
	w.clock.Step(time.Millisecond)
	w.settle(r)
	if second := w.held("b").Token; second <= first {
		t.Errorf("token %d after %d", second, first)
	}
	if w.pod("a") != nil {
		t.Error("the lapsed pod is still there")
	}
}

func TestAFreshInstanceWaitsAWholeDurationItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createLease()
	w.createPod("a", onNode("node-1"))
	w.createPod("b", cold)
	r := w.instance()
	w.reconcile(r)
	w.confirm()
	w.reconcile(r)
	w.clock.Step(term)
	fresh := w.instance()
	w.settle(fresh)
	w.waits("b")
	w.clock.Step(term)
	w.settle(fresh)
	w.held("b")
}

func TestLeasesThatGrantNothing(t *testing.T) {
	for name, edits := range map[string][]leaseEdit{
		"one that is not managed": {func(l *coordinationv1.Lease) { l.Labels = nil }},
		"one that is closed":      {note(v1alpha1.AnnotationClosed, string(v1alpha1.ClosedSuspended))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.createLease(edits...)
			w.createPod("a", cold)
			before := w.versions()
			w.settle(w.instance())
			if after := w.versions(); after != before {
				t.Errorf("written: %s, was %s", after, before)
			}
		})
	}
	t.Run("one that is being deleted", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.createLease()
		w.createPod("a", cold)
		w.must(w.api.Delete(t.Context(), w.lease()))
		w.settle(w.instance())
		w.waits("a")
		if w.record().Token != 0 {
			t.Error("granted")
		}
	})
	t.Run("one that is gone", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.createPod("a", cold)
		w.settle(w.instance())
		w.waits("a")
	})
}

func TestWhatOthersWroteIsRespectedAndShown(t *testing.T) {
	somebody := "somebody"
	for name, edit := range map[string]leaseEdit{
		"a foreign elector's seizure": func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = &somebody },
		"a holder wiped by hand":      func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.createLease()
			w.createPod("a", onNode("node-1"))
			w.createPod("b", cold)
			r := w.instance()
			w.reconcile(r)
			w.confirm()
			w.edit(edit)
			w.settle(r)
			w.waits("b")
			if text := w.lease().Annotations[v1alpha1.AnnotationBlocked]; !strings.HasPrefix(text, v1alpha1.BlockedForeignHolder) {
				t.Errorf("blocked: %q", text)
			}
			w.clock.Step(term)
			w.settle(r)
			w.held("b")
		})
	}
}

func TestAnInvalidLeaseIsBlockedUntilItIsMended(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createLease(note(v1alpha1.AnnotationDuration, "soon"))
	w.createPod("a", cold)
	r := w.instance()
	w.settle(r)
	w.waits("a")
	if text := w.lease().Annotations[v1alpha1.AnnotationBlocked]; !strings.Contains(text, `"soon"`) {
		t.Errorf("blocked: %q", text)
	}
	w.edit(note(v1alpha1.AnnotationDuration, "15"))
	w.settle(r)
	w.held("a")
	if text := w.lease().Annotations[v1alpha1.AnnotationBlocked]; text != "" {
		t.Errorf("still blocked: %q", text)
	}
}

func TestAHolderThatNoPodCanBeIsNotLookedFor(t *testing.T) {
	t.Parallel()
	for _, holder := range []string{"../etc_x", "_x", "no-uid"} {
		w := newWorld(t)
		w.createLease(note(v1alpha1.AnnotationHolder, holder), note(v1alpha1.AnnotationToken, "1"))
		r := w.instance()
		w.settle(r)
		w.clock.Step(term)
		w.settle(r)
		if w.record().Open() {
			t.Errorf("the term of %q is open for ever", holder)
		}
	}
}
