// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/controllers/grant/plan"
	"leasehold.dev/internal/refusal"
)

// forbidden makes the API server refuse the operation on the pods of this name,
// by a policy, and waits until it does. The returned function ends that.
func (w *world) forbidden(operation admissionv1.OperationType, pod string) (admit func()) {
	w.t.Helper()
	lift := w.policy(operation, admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"*"}, Resources: []string{"pods"}}, pod)
	w.until(operation, pod, true)
	return func() {
		w.t.Helper()
		lift()
		w.until(operation, pod, false)
	}
}

// policy refuses the operation on the objects of this name.
func (w *world) policy(operation admissionv1.OperationType, rule admissionv1.Rule, object string) (lift func()) {
	w.t.Helper()
	name := strings.ToLower(fmt.Sprintf("%s-%s-%s", w.key.Namespace, operation, object))
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: ptr.To(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.key.Namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{operation},
					Rule:       rule,
				}}},
			},
			Validations: []admissionv1.Validation{{Expression: fmt.Sprintf("request.name != %q", object), Message: "house rules: hands off"}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}},
	}
	for _, o := range []client.Object{policy, binding} {
		w.must(w.api.Create(w.t.Context(), o))
		w.t.Cleanup(func() {
			if err := client.IgnoreNotFound(w.api.Delete(context.WithoutCancel(w.t.Context()), o)); err != nil {
				w.t.Error(err)
			}
		})
	}
	return func() {
		w.t.Helper()
		for _, o := range []client.Object{binding, policy} {
			w.must(w.api.Delete(w.t.Context(), o))
		}
	}
}

// until tries the operation for show, until it is refused or not.
func (w *world) until(operation admissionv1.OperationType, pod string, want bool) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		var err error
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: pod}}
		if operation == admissionv1.Delete {
			err = w.api.Delete(w.t.Context(), p, client.DryRunAll)
		} else {
			err = w.api.Patch(w.t.Context(), p, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"x":"y"}}}`)), client.DryRunAll)
		}
		if refusal.Is(err) == want {
			return
		}
	}
	w.t.Fatalf("%s of pod %s is never refused: %t", operation, pod, want)
}

func (w *world) blocked() string { return w.lease().Annotations[v1alpha1.AnnotationBlocked] }

func (w *world) demandBlocked(words ...string) {
	w.t.Helper()
	for _, word := range append(words, "hands off") {
		if !strings.Contains(w.blocked(), word) {
			w.t.Errorf("no %q in %q", word, w.blocked())
		}
	}
}

func TestARefusedStampIsShownRetriedWithBackOffAndMadeUpFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createLease()
	w.createPod("a", cold)
	admit := w.forbidden(admissionv1.Update, "a")
	r := w.instance()
	if result := w.reconcile(r); result.RequeueAfter != leastRefusal {
		t.Errorf("again after %s, want %s", result.RequeueAfter, leastRefusal)
	}
	w.reconcile(r)
	w.demandBlocked("PodWriteRefused: ", "stamp pod a", "ValidatingAdmissionPolicy", "admit it")
	var waits []time.Duration
	for range 7 {
		wait := w.reconcile(r).RequeueAfter
		waits = append(waits, wait)
		w.clock.Step(wait)
	}
	if got := fmt.Sprint(waits); got != "[1s 2s 4s 8s 16s 30s 30s]" {
		t.Errorf("waits %s", got)
	}
	if said := strings.Join(spoken(r), "\n"); strings.Count(said, plan.ReasonPodWriteRefused+" ") != 1 || strings.Count(said, "Blocked ") != 1 {
		t.Errorf("events:\n%s", said)
	}
	w.waits("a")
	admit()
	w.clock.Step(mostRefusal)
	w.settle(r)
	w.held("a")
	if w.blocked() != "" {
		t.Errorf("still blocked: %s", w.blocked())
	}
}

// Fail-over must not wait for whoever refuses to let the lapsed pod be marked.
func TestARefusedMarkDoesNotHoldUpTheFailOver(t *testing.T) {
	t.Parallel()
	w, r := lapsed(t, (*world).instance0)
	w.createPod("b", cold)
	w.forbidden(admissionv1.Update, "a")
	w.settle(r)
	w.held("b")
	if w.pod("a") != nil {
		t.Error("the lapsed pod is still there")
	}
}

func TestAPodOfOursThatMayNotBeWrittenIsRevokedByItsDeletion(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edits []podEdit
		goes  bool
	}{"ours": {[]podEdit{ours}, true}, "the control: others' stay": {nil, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.createLease()
			w.createPod("a", append(tc.edits, cold)...)
			w.forbidden(admissionv1.Update, "a")
			r := w.instance()
			w.reconcile(r)
			w.createPod("b", cold)
			w.clock.Step(takeUp)
			for range 4 {
				w.reconcile(r)
			}
			if gone := w.pod("a") == nil; gone != tc.goes {
				t.Errorf("gone: %t, want %t", gone, tc.goes)
			}
			if tc.goes {
				w.held("b")
				return
			}
			w.demandBlocked("PodWriteRefused: ")
			w.waits("a")
			w.waits("b")
		})
	}
}

func TestARefusedRemovalIsShownAndDone(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edits []leaseEdit
		want  string
	}{
		"a pod that never became ready": {[]leaseEdit{kubelet}, "PodWriteRefused: "},
		"under Forbid":                  {[]leaseEdit{forbid}, "HolderUnreachable: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.createLease(tc.edits...)
			a := w.createPod("a", ours, cold, func(p *corev1.Pod) { p.Finalizers = []string{v1alpha1.FinalizerLease} })
			r := w.instance()
			w.settle(r)
			node := w.bind(a)
			if tc.want == "HolderUnreachable: " {
				w.confirm()
			}
			admit := w.forbidden(admissionv1.Delete, "a")
			for range 4 {
				w.reconcile(r)
				w.clock.Step(takeUp)
				beatNode(w, node)
				w.reconcile(r)
			}
			w.demandBlocked(tc.want, "delete pod a")
			before := w.versions()
			w.reconcile(r)
			if after := w.versions(); after != before {
				t.Errorf("it is written again and again: %s, was %s", after, before)
			}
			admit()
			w.clock.Step(mostRefusal)
			w.reconcile(r)
			if w.pod("a").DeletionTimestamp == nil {
				t.Error("it was not deleted when it could be")
			}
		})
	}
}

func TestAnswersAreSortedIntoLostRacesRefusalsAndOutages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.createPod("a", cold)
	patch := func(body string) error {
		return w.api.Patch(t.Context(), a.DeepCopy(), client.RawPatch(types.JSONPatchType, []byte(body)), client.DryRunAll)
	}
	code := func(code int) error {
		return fmt.Errorf("wrapped: %w", apierrors.NewGenericServerResponse(code, "patch", schema.GroupResource{Resource: "pods"}, "a", "no", 0, true))
	}
	stale := patch(`[{"op":"test","path":"/metadata/resourceVersion","value":"1"}]`)
	otherUID := patch(`[{"op":"test","path":"/metadata/uid","value":"x"}]`)
	noGate := patch(`[{"op":"test","path":"/spec/schedulingGates/7/name","value":"x"}]`)
	w.forbidden(admissionv1.Update, "a")
	type kind struct{ lost, refused bool }
	for name, tc := range map[string]struct {
		err  error
		want kind
	}{
		"an older version": {stale, kind{lost: true}},
		"another pod":      {otherUID, kind{lost: true}},
		"a gate less":      {noGate, kind{lost: true}},
		"a policy":         {patch(`[{"op":"add","path":"/metadata/annotations","value":{"x":"y"}}]`), kind{refused: true}},
		"a validation":     {patch(`[{"op":"add","path":"/metadata/labels","value":{"x":"?"}}]`), kind{refused: true}},
		"a webhook's 422":  {code(422), kind{refused: true}},
		"a role":           {code(403), kind{refused: true}},
		"a broken webhook": {code(500), kind{refused: true}},
		"an outage":        {code(503), kind{}},
		"a time-out":       {code(504), kind{}},
		"too much":         {code(429), kind{}},
		"who are you":      {code(401), kind{}},
		"a conflict":       {code(409), kind{}},
		"not there":        {code(404), kind{}},
		"no answer":        {errors.New("connection refused"), kind{}},
		"done":             {nil, kind{}},
	} {
		if got := (kind{refusal.LostTest(tc.err), refusal.Is(tc.err)}); got != tc.want {
			t.Errorf("%s: %+v, want %+v: %v", name, got, tc.want, tc.err)
		}
	}
	for name, err := range map[string]error{"an older version": stale, "another pod": otherUID, "a gate less": noGate} {
		if !apierrors.IsInvalid(err) {
			t.Errorf("%s: the control is no control, since its code alone tells it: %v", name, err)
		}
	}
}

// What the Lease cannot say, since it may not be written, an event and the board
// say, until a look finds all its writes admitted.
func TestARefusedGrantIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createLease()
	w.createPod("a", cold)
	board := refusal.NewBoard()
	r := w.instance()
	r.LeaseRefusals = board
	lift := w.policy(admissionv1.Update, admissionv1.Rule{
		APIGroups: []string{"coordination.k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"leases"}}, w.key.Name)
	touch := func() error {
		return w.api.Patch(t.Context(), w.lease(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"x":"y"}}}`)), client.DryRunAll)
	}
	w.eventually("the policy holds", func() bool { return refusal.Is(touch()) })
	for range 3 {
		if _, err := w.look(r); !refusal.Is(err) {
			t.Errorf("error is %v", err)
		}
	}
	if got := board.Of(w.key); !strings.Contains(got, "update lease ledger") || !strings.Contains(got, "hands off") {
		t.Errorf("the board says %q", got)
	}
	if said := strings.Join(spoken(r), "\n"); strings.Count(said, "WriteRefused ") != 1 {
		t.Errorf("events:\n%s", said)
	}
	lift()
	w.eventually("the policy is lifted", func() bool { return touch() == nil })
	w.settle(r)
	w.held("a")
	if got := board.Of(w.key); got != "" {
		t.Errorf("the board still says %q", got)
	}
}

// eventually asks until it is so.
func (w *world) eventually(what string, is func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); {
		if time.Now().After(deadline) {
			w.t.Fatalf("never: %s", what)
		}
	}
}
