// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package singletonjob

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	applyrbacv1 "k8s.io/client-go/applyconfigurations/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/controllers/singletonjob/plan"
)

// A pod's agent needs exactly its own Lease. list and watch by resourceNames
// are allowed to requests with the field selector metadata.name.
var leaseVerbs = []string{"get", "list", "update", "watch"}

// access is what the pods' service accounts may do, as it should be.
type access struct {
	name     string
	labels   map[string]string
	rules    []rbacv1.PolicyRule
	subjects []rbacv1.Subject
}

// accessFor grants the template's service account, and those of pods that an
// earlier template made, access to the Lease.
func accessFor(job *v1alpha1.SingletonJob, pods []*corev1.Pod) access {
	accounts := []string{orDefault(job.Spec.Template.Spec.ServiceAccountName)}
	for _, pod := range pods {
		accounts = append(accounts, orDefault(pod.Spec.ServiceAccountName))
	}
	slices.Sort(accounts)
	a := access{
		name: plan.AccessName(job),
		labels: map[string]string{
			"app.kubernetes.io/name":     "leasehold",
			"app.kubernetes.io/instance": job.Name,
			v1alpha1.LabelManagedBy:      v1alpha1.ManagedBy,
			v1alpha1.LabelJob:            job.Name,
		},
		rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
			ResourceNames: []string{plan.LeaseName(job)}, Verbs: leaseVerbs,
		}},
	}
	for _, account := range slices.Compact(accounts) {
		a.subjects = append(a.subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: job.Namespace, Name: account})
	}
	return a
}

func orDefault(account string) string {
	if account == "" {
		return "default"
	}
	return account
}

// observeAccess compares Role and RoleBinding with what they should be.
func (r *Reconciler) observeAccess(ctx context.Context, job *v1alpha1.SingletonJob, pods []*corev1.Pod) (plan.Access, error) {
	if plan.RenewedBy(job) != v1alpha1.RenewedByAgent {
		return plan.AccessUnneeded, nil
	}
	role, binding, err := r.readAccess(ctx, job)
	if err != nil {
		return "", err
	}
	want := accessFor(job, pods)
	switch {
	case stranger(role, job) || stranger(binding, job):
		return plan.AccessForeign, nil
	case !want.is(role) || !want.isBound(binding):
		return plan.AccessOutdated, nil
	}
	return plan.AccessCurrent, nil
}

// is reports whether the Role is as it should be.
func (a access) is(role *rbacv1.Role) bool {
	return role.UID != "" && equality.Semantic.DeepEqual(role.Rules, a.rules) && has(role.Labels, a.labels)
}

// isBound reports whether the RoleBinding is as it should be.
func (a access) isBound(binding *rbacv1.RoleBinding) bool {
	return binding.UID != "" && equality.Semantic.DeepEqual(binding.Subjects, a.subjects) && has(binding.Labels, a.labels)
}

// readAccess reads Role and RoleBinding; one that does not exist has no UID.
func (r *Reconciler) readAccess(ctx context.Context, job *v1alpha1.SingletonJob) (*rbacv1.Role, *rbacv1.RoleBinding, error) {
	key := client.ObjectKey{Namespace: job.Namespace, Name: plan.AccessName(job)}
	role, binding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
	for _, object := range []client.Object{role, binding} {
		if err := r.Client.Get(ctx, key, object); err != nil && !apierrors.IsNotFound(err) {
			return nil, nil, fmt.Errorf("read access: %w", err)
		}
	}
	return role, binding, nil
}

func stranger(object client.Object, job *v1alpha1.SingletonJob) bool {
	return object.GetUID() != "" && !metav1.IsControlledBy(object, job)
}

func has(labels, want map[string]string) bool {
	for key, value := range want {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// applyAccess applies what is not as it should be. One that already is gets no
// write: a manager that always dies after its first would never reach the other.
// What exists is named by its UID, so that nothing of the same name is taken
// over; what does not is created without force.
func (r *Reconciler) applyAccess(ctx context.Context, job *v1alpha1.SingletonJob, pods []*corev1.Pod) error {
	role, binding, err := r.readAccess(ctx, job)
	if err != nil {
		return err
	}
	want := accessFor(job, pods)
	if !want.is(role) {
		if err := r.serverSideApply(ctx, roleFor(job, want, role.UID), role.UID); err != nil {
			return fmt.Errorf("apply role: %w", err)
		}
	}
	if !want.isBound(binding) {
		if err := r.serverSideApply(ctx, bindingFor(job, want, binding.UID), binding.UID); err != nil {
			return fmt.Errorf("apply role binding: %w", err)
		}
	}
	return nil
}

func (r *Reconciler) serverSideApply(ctx context.Context, object runtime.ApplyConfiguration, uid types.UID) error {
	options := []client.ApplyOption{fieldOwner}
	if uid != "" {
		options = append(options, client.ForceOwnership)
	}
	return r.Client.Apply(ctx, object, options...)
}

func roleFor(job *v1alpha1.SingletonJob, want access, uid types.UID) *applyrbacv1.RoleApplyConfiguration {
	role := applyrbacv1.Role(want.name, job.Namespace).WithLabels(want.labels).WithOwnerReferences(ownerConfiguration(job))
	if uid != "" {
		role.WithUID(uid)
	}
	for _, rule := range want.rules {
		role.WithRules(applyrbacv1.PolicyRule().WithAPIGroups(rule.APIGroups...).WithResources(rule.Resources...).
			WithResourceNames(rule.ResourceNames...).WithVerbs(rule.Verbs...))
	}
	return role
}

func bindingFor(job *v1alpha1.SingletonJob, want access, uid types.UID) *applyrbacv1.RoleBindingApplyConfiguration {
	binding := applyrbacv1.RoleBinding(want.name, job.Namespace).WithLabels(want.labels).WithOwnerReferences(ownerConfiguration(job)).
		WithRoleRef(applyrbacv1.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("Role").WithName(want.name))
	if uid != "" {
		binding.WithUID(uid)
	}
	for _, s := range want.subjects {
		binding.WithSubjects(applyrbacv1.Subject().WithKind(s.Kind).WithNamespace(s.Namespace).WithName(s.Name))
	}
	return binding
}

func ownerConfiguration(job *v1alpha1.SingletonJob) *applymetav1.OwnerReferenceApplyConfiguration {
	o := ownerReference(job)
	return applymetav1.OwnerReference().WithAPIVersion(o.APIVersion).WithKind(o.Kind).WithName(o.Name).WithUID(o.UID).
		WithController(true).WithBlockOwnerDeletion(true)
}
