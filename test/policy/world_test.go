// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/test/api/apiserver"
)

// actor is somebody who writes.
type actor string

const (
	manager             actor = "manager"
	breakGlass          actor = "break-glass"
	user                actor = "user"      // may do anything in RBAC's eyes
	holder              actor = "holder"    // the pod that the leases name
	otherPod            actor = "other pod" // with the same service account
	namesake            actor = "namesake"  // the holder's name, another namespace and UID
	unboundToken        actor = "unbound token of the holder's service account"
	garbageCollector    actor = "garbage collector"
	namespaceController actor = "namespace controller"
	// controllerManager is both, where the controllers have no accounts of their own.
	controllerManager actor = "controller manager"
)

const (
	namespace = "work"
	elsewhere = "elsewhere"
	account   = "worker"
	tokenKey  = v1alpha1.AnnotationToken
)

// world is an API server with actors in it.
type world struct {
	admin   client.Client
	clients map[actor]client.Client
	holder  *corev1.Pod
	serial  atomic.Int64

	lock     sync.Mutex
	refusals []string
}

func (w *world) client(a actor) client.Client { return w.clients[a] }

// unique returns a name that no other attempt uses.
func (w *world) unique(prefix string) string { return fmt.Sprintf("%s-%d", prefix, w.serial.Add(1)) }

func newWorld(t *testing.T) *world {
	t.Helper()
	admin, err := server.Client()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{admin: admin, clients: map[actor]client.Client{}}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "leasehold-system"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: elsewhere}},
		serviceAccount(namespace, account),
		serviceAccount(elsewhere, account),
		serviceAccount("leasehold-system", "leasehold-manager"),
		serviceAccount(metav1.NamespaceSystem, "generic-garbage-collector"),
		serviceAccount(metav1.NamespaceSystem, "namespace-controller"),
		// RBAC lets everybody do everything here; the policies alone refuse.
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "everybody"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:authenticated"}},
		},
	} {
		// The server makes some of these by itself, a moment after it starts.
		if err := admin.Create(t.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	w.addPods(t)
	w.addToken(t, manager, "leasehold-system", "leasehold-manager", nil)
	w.addToken(t, garbageCollector, metav1.NamespaceSystem, "generic-garbage-collector", nil)
	w.addToken(t, namespaceController, metav1.NamespaceSystem, "namespace-controller", nil)
	w.addToken(t, unboundToken, namespace, account, nil)
	w.impersonate(t, user, "user")
	w.impersonate(t, breakGlass, "user", "leasehold:break-glass")
	w.impersonate(t, controllerManager, "system:kube-controller-manager")
	return w
}

// addPods makes the pods that act.
func (w *world) addPods(t *testing.T) {
	t.Helper()
	w.holder = w.makePod(t, namespace, "holder-0")
	w.addToken(t, holder, namespace, account, w.holder)
	w.addToken(t, otherPod, namespace, account, w.makePod(t, namespace, "other-0"))
	w.addToken(t, namesake, elsewhere, account, w.makePod(t, elsewhere, "holder-0"))
}

func (w *world) makePod(t *testing.T, namespace, name string) *corev1.Pod {
	t.Helper()
	pod := w.newPod(name, nil)
	pod.Namespace = namespace
	if err := w.admin.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// newPod is a gated candidate.
func (w *world) newPod(name string, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Annotations: annotations,
			Labels: map[string]string{v1alpha1.LabelLease: "some"},
		},
		Spec: corev1.PodSpec{
			ServiceAccountName: account,
			SchedulingGates:    []corev1.PodSchedulingGate{{Name: v1alpha1.SchedulingGate}},
			Containers:         []corev1.Container{{Name: "work", Image: "work"}},
		},
	}
}

func serviceAccount(namespace, name string) client.Object {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// addToken lets an actor write with a token that the server issues to a service
// account, bound to a pod where one is given.
func (w *world) addToken(t *testing.T, a actor, namespace, name string, pod *corev1.Pod) {
	t.Helper()
	request := &authenticationv1.TokenRequest{}
	if pod != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{
			APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	owner := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := w.admin.SubResource("token").Create(t.Context(), owner, request); err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(server.Config)
	config.BearerToken = request.Status.Token
	w.addClient(t, a, config)
}

func (w *world) impersonate(t *testing.T, a actor, name string, groups ...string) {
	t.Helper()
	config := rest.CopyConfig(server.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: name, Groups: append(groups, "system:authenticated")}
	w.addClient(t, a, config)
}

func (w *world) addClient(t *testing.T, a actor, config *rest.Config) {
	t.Helper()
	config.QPS, config.Burst = -1, -1
	c, err := apiserver.ClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	w.clients[a] = c
}

// affected reports whether an attempt changed, made or removed the object.
func (w *world) affected(ctx context.Context, before client.Object) (bool, error) {
	now := before.DeepCopyObject().(client.Object)
	err := w.admin.Get(ctx, client.ObjectKeyFromObject(before), now)
	if apierrors.IsNotFound(err) {
		return before.GetResourceVersion() != "", nil
	}
	return now.GetResourceVersion() != before.GetResourceVersion(), err
}

// heard remembers what a refusal said.
func (w *world) heard(err error) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.refusals = append(w.refusals, err.Error())
}
