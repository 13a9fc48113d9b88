// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package death

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"leasehold.dev/leaderelect/lease"
)

const (
	mine    = "work.boot-7.x"
	earlier = "work.boot-6.x"
)

type edit func(*corev1.Pod)

// pod returns a bound pod with one container, "work".
func pod(policy corev1.RestartPolicy, edits ...edit) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{
		NodeName: "node", RestartPolicy: policy, Containers: []corev1.Container{{Name: "work"}},
	}}
	for _, e := range edits {
		e(p)
	}
	return p
}

func statuses(s ...corev1.ContainerStatus) edit {
	return func(p *corev1.Pod) { p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, s...) }
}

func initStatuses(s ...corev1.ContainerStatus) edit {
	return func(p *corev1.Pod) { p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, s...) }
}

func initContainer(c corev1.Container) edit {
	return func(p *corev1.Pod) { p.Spec.InitContainers = append(p.Spec.InitContainers, c) }
}

func sidecar(name string) edit {
	always := corev1.ContainerRestartPolicyAlways
	return initContainer(corev1.Container{Name: name, RestartPolicy: &always})
}

func second(c corev1.Container) edit {
	return func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, c) }
}

func rules(action corev1.ContainerRestartRuleAction) []corev1.ContainerRestartRule {
	return []corev1.ContainerRestartRule{{Action: action, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
		Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{75},
	}}}
}

func deleting(p *corev1.Pod) {
	p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
}

func unbound(p *corev1.Pod) { p.Spec.NodeName = "" }

func phase(ph corev1.PodPhase) edit { return func(p *corev1.Pod) { p.Status.Phase = ph } }

func ready(status corev1.ConditionStatus, reason string) edit {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: status, Reason: reason})
	}
}

func end(exit int32, message string) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{ExitCode: exit, Message: message}
}

func running(name string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
}

func ended(name string, exit int32, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: end(exit, message)}}
}

// lately gives a status the end of the container's previous run.
func lately(s corev1.ContainerStatus, exit int32, message string) corev1.ContainerStatus {
	s.LastTerminationState.Terminated = end(exit, message)
	return s
}

func waiting(name string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}
}

func message(nonce string) string { return lease.TerminationMessage(nonce) }

const (
	always    = corev1.RestartPolicyAlways
	onFailure = corev1.RestartPolicyOnFailure
	never     = corev1.RestartPolicyNever
)

type verdict struct{ dead, succeeded bool }

var (
	alive   = verdict{}
	dead    = verdict{dead: true}
	success = verdict{dead: true, succeeded: true}
)

type testCase struct {
	pod     *corev1.Pod
	started string
	want    verdict
}

func judge(t *testing.T, cases map[string]testCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Judge(tc.pod, tc.started)
			if (verdict{got.Dead, got.Succeeded}) != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
			if got.Reason == "" {
				t.Error("no reason is given")
			}
		})
	}
}

func TestWhatProvesNothing(t *testing.T) {
	judge(t, map[string]testCase{
		"no status at all":                    {pod(never), mine, alive},
		"a pod without containers":            {&corev1.Pod{}, mine, alive},
		"empty statuses, phase Failed":        {pod(never, phase(corev1.PodFailed)), mine, alive},
		"Failed by pod GC, containers run":    {pod(never, phase(corev1.PodFailed), deleting, statuses(running("work"))), mine, alive},
		"Succeeded phase, containers run":     {pod(never, phase(corev1.PodSucceeded), statuses(running("work"))), mine, alive},
		"not ready":                           {pod(never, ready(corev1.ConditionFalse, "ContainersNotReady"), statuses(running("work"))), mine, alive},
		"deleting, bound":                     {pod(never, deleting), mine, alive},
		"unbound, not deleting":               {pod(never, unbound), mine, alive},
		"a status of another container":       {pod(never, statuses(ended("other", 0, ""))), mine, alive},
		"another container still runs":        {pod(never, second(corev1.Container{Name: "b"}), statuses(ended("work", 0, ""), running("b"))), mine, alive},
		"another container has no status":     {pod(never, second(corev1.Container{Name: "b"}), statuses(ended("work", 0, ""))), mine, alive},
		"init container still runs":           {pod(never, initContainer(corev1.Container{Name: "i"}), initStatuses(running("i")), statuses(waiting("work"))), mine, alive},
		"init container without status":       {pod(never, initContainer(corev1.Container{Name: "i"}), statuses(ended("work", 0, ""))), mine, alive},
		"final report, but one container run": {pod(always, deleting, ready(corev1.ConditionFalse, "PodFailed"), statuses(lately(running("work"), 1, ""))), mine, alive},
		"final report, not deleting, Always":  {pod(always, ready(corev1.ConditionFalse, "PodFailed"), statuses(ended("work", 1, ""))), mine, alive},
		"deleting, ended, not the last word":  {pod(always, deleting, ready(corev1.ConditionFalse, "ContainersNotReady"), statuses(ended("work", 1, ""))), mine, alive},
	})
}

func TestDeathWithoutANonce(t *testing.T) {
	judge(t, map[string]testCase{
		"deleting, never bound":          {pod(always, deleting, unbound), mine, dead},
		"final report PodFailed":         {pod(always, deleting, ready(corev1.ConditionFalse, "PodFailed"), statuses(ended("work", 137, ""))), mine, dead},
		"final report PodCompleted":      {pod(always, deleting, ready(corev1.ConditionFalse, "PodCompleted"), statuses(ended("work", 0, ""))), mine, success},
		"Never, failed":                  {pod(never, statuses(ended("work", 1, ""))), mine, dead},
		"Never, succeeded":               {pod(never, statuses(ended("work", 0, ""))), mine, success},
		"OnFailure, succeeded":           {pod(onFailure, statuses(ended("work", 0, ""))), mine, success},
		"OnFailure, failed: it restarts": {pod(onFailure, statuses(ended("work", 1, ""))), mine, alive},
		"Always, ended: it restarts":     {pod(always, statuses(ended("work", 0, ""))), mine, alive},
		"never confirmed, Never":         {pod(never, statuses(ended("work", 1, ""))), "", dead},
		"init container ended well":      {pod(never, initContainer(corev1.Container{Name: "i"}), initStatuses(ended("i", 0, "")), statuses(ended("work", 0, ""))), mine, success},
		"one of two failed":              {pod(never, second(corev1.Container{Name: "b"}), statuses(ended("work", 0, ""), ended("b", 1, ""))), mine, dead},
	})
}

func TestContainersThatNeverStarted(t *testing.T) {
	one, two := initContainer(corev1.Container{Name: "i"}), initContainer(corev1.Container{Name: "j"})
	ruled := initContainer(corev1.Container{Name: "i", RestartPolicyRules: rules(corev1.ContainerRestartRuleActionRestart)})
	finally := func(p *corev1.Pod) { deleting(p); ready(corev1.ConditionFalse, "PodFailed")(p) }
	counted := func(name string) corev1.ContainerStatus {
		s := waiting(name)
		s.RestartCount = 1
		return s
	}
	begun := func(name string) corev1.ContainerStatus {
		s := waiting(name)
		yes := true
		s.Started = &yes
		return s
	}
	judge(t, map[string]testCase{
		"deleted while an init container ran":           {pod(always, one, finally, initStatuses(ended("i", 137, "")), statuses(waiting("work"))), mine, dead},
		"the first of two":                              {pod(always, one, two, finally, initStatuses(ended("i", 137, ""), waiting("j")), statuses(waiting("work"))), mine, dead},
		"the second of two":                             {pod(always, one, two, finally, initStatuses(ended("i", 0, ""), ended("j", 143, "")), statuses(waiting("work"))), mine, dead},
		"a sidecar behind it":                           {pod(always, one, sidecar("s"), finally, initStatuses(ended("i", 1, ""), waiting("s")), statuses(waiting("work"))), mine, dead},
		"an init container failed, Never":               {pod(never, one, initStatuses(ended("i", 1, "")), statuses(waiting("work"))), mine, dead},
		"an init container failed, OnFailure":           {pod(onFailure, one, initStatuses(ended("i", 1, "")), statuses(waiting("work"))), mine, alive},
		"failed, Never, but its rules start it again":   {pod(never, ruled, initStatuses(ended("i", 75, "")), statuses(waiting("work"))), mine, alive},
		"deleted, but that is not the last word":        {pod(always, one, deleting, initStatuses(ended("i", 137, "")), statuses(waiting("work"))), mine, alive},
		"behind one that succeeded: it may be starting": {pod(always, one, finally, initStatuses(ended("i", 0, "")), statuses(waiting("work"))), mine, alive},
		"behind one that waits":                         {pod(always, one, finally, initStatuses(waiting("i")), statuses(waiting("work"))), mine, alive},
		"before the one that failed":                    {pod(always, one, two, finally, initStatuses(waiting("i"), ended("j", 1, "")), statuses(waiting("work"))), mine, alive},
		"behind a sidecar that failed":                  {pod(always, sidecar("s"), finally, initStatuses(ended("s", 1, "")), statuses(waiting("work"))), mine, alive},
		"a sidecar runs":                                {pod(always, sidecar("s"), one, finally, initStatuses(running("s"), ended("i", 1, "")), statuses(waiting("work"))), mine, alive},
		"it runs":                                       {pod(always, one, finally, initStatuses(ended("i", 1, "")), statuses(running("work"))), mine, alive},
		"it ran before":                                 {pod(always, one, finally, initStatuses(ended("i", 1, "")), statuses(lately(waiting("work"), 1, ""))), mine, alive},
		"it was started again":                          {pod(always, one, finally, initStatuses(ended("i", 1, "")), statuses(counted("work"))), mine, alive},
		"it is said to have started":                    {pod(always, one, finally, initStatuses(ended("i", 1, "")), statuses(begun("work"))), mine, alive},
		"it was not reported at all":                    {pod(always, one, finally, initStatuses(ended("i", 1, ""))), mine, alive},
		"the init container runs again":                 {pod(always, one, finally, initStatuses(lately(running("i"), 1, "")), statuses(waiting("work"))), mine, alive},
	})
}

func TestDeathByTheNonceInTheTerminationMessage(t *testing.T) {
	judge(t, map[string]testCase{
		"ended with it, Always":              {pod(always, statuses(ended("work", 1, message(mine)))), mine, dead},
		"as a line among others":             {pod(always, statuses(ended("work", 1, "bye\n"+message(mine)+"\nmore"))), mine, dead},
		"as part of a line only":             {pod(always, statuses(ended("work", 1, message(mine)+"y"))), mine, alive},
		"runs again since":                   {pod(always, statuses(lately(running("work"), 1, message(mine)))), mine, dead},
		"waits to run again":                 {pod(onFailure, statuses(lately(waiting("work"), 1, message(mine)))), mine, dead},
		"of an earlier start, runs":          {pod(always, statuses(lately(running("work"), 1, message(earlier)))), mine, alive},
		"of an earlier start, ended":         {pod(onFailure, statuses(ended("work", 1, message(earlier)))), mine, alive},
		"no nonce, looks just the same":      {pod(onFailure, statuses(ended("work", 1, ""))), mine, alive},
		"carried term: nobody has the nonce": {pod(onFailure, statuses(ended("work", 1, message(lease.StartedUnknown)))), lease.StartedUnknown, alive},
		"unconfirmed term has none":          {pod(onFailure, statuses(ended("work", 1, message("")))), "", alive},
		"two containers, one carries it":     {pod(always, second(corev1.Container{Name: "b"}), statuses(ended("work", 1, message(mine)), ended("b", 1, ""))), mine, alive},
	})
}

func TestContainersThatRestartByTheirOwnRule(t *testing.T) {
	policyAlways := corev1.ContainerRestartPolicyAlways
	one := func(c corev1.Container) edit {
		return func(p *corev1.Pod) { p.Spec.Containers = []corev1.Container{c} }
	}
	judge(t, map[string]testCase{
		"native sidecar runs":             {pod(never, sidecar("s"), initStatuses(running("s")), statuses(ended("work", 0, ""))), mine, alive},
		"native sidecar ended":            {pod(never, sidecar("s"), initStatuses(ended("s", 0, "")), statuses(ended("work", 0, ""))), mine, alive},
		"native sidecar, final report":    {pod(never, sidecar("s"), deleting, ready(corev1.ConditionFalse, "PodCompleted"), initStatuses(ended("s", 137, "")), statuses(ended("work", 0, ""))), mine, success},
		"sidecar agent carries the nonce": {pod(never, sidecar("s"), initStatuses(ended("s", 1, message(mine))), statuses(ended("work", 1, ""))), mine, dead},
		"its own policy":                  {pod(never, one(corev1.Container{Name: "work", RestartPolicy: &policyAlways}), statuses(ended("work", 0, ""))), mine, alive},
		"its own rules":                   {pod(never, one(corev1.Container{Name: "work", RestartPolicyRules: rules(corev1.ContainerRestartRuleActionRestart)}), statuses(ended("work", 0, ""))), mine, alive},
		"its own rules, with the nonce":   {pod(never, one(corev1.Container{Name: "work", RestartPolicyRules: rules(corev1.ContainerRestartRuleActionRestart)}), statuses(ended("work", 0, message(mine)))), mine, success},
		"another's rule restarts all": {pod(never, initContainer(corev1.Container{Name: "s", RestartPolicy: &policyAlways, RestartPolicyRules: rules(corev1.ContainerRestartRuleActionRestartAllContainers)}),
			initStatuses(ended("s", 75, message(mine))), statuses(ended("work", 143, ""))), mine, alive},
	})
}

// A later start may have ended well without having done the work.
func TestSuccessIsJudgedFromTheEndOfTheStartInQuestion(t *testing.T) {
	judge(t, map[string]testCase{
		"failed, then a later start ended well":       {pod(onFailure, statuses(lately(ended("work", 0, ""), 1, message(mine)))), mine, dead},
		"succeeded, then a later start failed":        {pod(always, statuses(lately(ended("work", 1, ""), 0, message(mine)))), mine, success},
		"another start ended well":                    {pod(never, statuses(ended("work", 0, message(earlier)))), mine, dead},
		"this start's end, and the final report":      {pod(onFailure, deleting, ready(corev1.ConditionFalse, "PodCompleted"), statuses(lately(ended("work", 0, ""), 1, message(mine)))), mine, dead},
		"every end carries the nonce, one runs again": {pod(never, second(corev1.Container{Name: "b"}), statuses(ended("work", 0, message(mine)), lately(running("b"), 0, message(mine)))), mine, success},
	})
}
