// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

func TestLeaseConfig(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*v1alpha1.SingletonJob)
		want   lease.Config
	}{
		"agent, by default": {
			change: func(*v1alpha1.SingletonJob) {},
			want: lease.Config{Duration: 15 * time.Second, RenewInterval: 5 * time.Second, TakeUp: 300 * time.Second, LockDelay: 15 * time.Second,
				OverlapPolicy: v1alpha1.OverlapFence, RenewedBy: v1alpha1.RenewedByAgent, CandidateOwner: "job", TokenFloor: 7},
		},
		"kubelet": {
			change: kubelet,
			want: lease.Config{Duration: 40 * time.Second, RenewInterval: 13 * time.Second, TakeUp: 300 * time.Second, LockDelay: 15 * time.Second,
				OverlapPolicy: v1alpha1.OverlapFence, RenewedBy: v1alpha1.RenewedByKubelet, CandidateOwner: "job", TokenFloor: 7},
		},
		"all set": {
			change: func(job *v1alpha1.SingletonJob) {
				job.Spec.OverlapPolicy = v1alpha1.OverlapForbid
				job.Spec.Template.Spec.RestartPolicy = onFailure
				job.Spec.Lease = v1alpha1.LeaseSpec{DurationSeconds: 3, RenewIntervalSeconds: 1, TakeUpSeconds: 9, LockDelaySeconds: ptr.To[int32](0), MinToken: 5}
			},
			want: lease.Config{Duration: 3 * time.Second, RenewInterval: time.Second, TakeUp: 9 * time.Second,
				OverlapPolicy: v1alpha1.OverlapForbid, RenewedBy: v1alpha1.RenewedByAgent, CandidateOwner: "job", TokenFloor: 7, MinToken: 5, CloseOnSuccess: true},
		},
	} {
		job := newScene(tc.change).Job
		got := LeaseConfig(job, 7)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		l := lease.New(metav1.ObjectMeta{}, got, lease.Carry{})
		if r, err := lease.Parse(l); err != nil || cmp.Diff(r.Config, got) != "" {
			t.Errorf("%s: the lease does not say so: %v %s", name, err, cmp.Diff(got, r.Config))
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	job := newScene().Job
	wantEqual(t, "lease", LeaseName(job), "j")
	wantEqual(t, "role", AccessName(job), "leasehold-j")
	job.Spec.Lease.Name = "l"
	wantEqual(t, "lease", LeaseName(job), "l")
	for name, want := range map[string]int32{"j-0": 0, "j-12": 12, "j-": -1, "j-x": -1, "j--1": -1, "j-01": -1, "k-1": -1, "j-3000000000": -1} {
		wantEqual(t, name, ordinalOf(job, name), want)
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	job := newScene(policy(never)).Job
	for failed, want := range map[int32]time.Duration{
		0: 10 * time.Second, 1: 10 * time.Second, 2: 20 * time.Second, 5: 160 * time.Second, 6: 320 * time.Second, 7: 6 * time.Minute, 11: 6 * time.Minute, 1000: 6 * time.Minute,
	} {
		wantEqual(t, "pause", backoff(job, failed), want)
	}
	wantEqual(t, "pause of what runs for ever", backoff(newScene().Job, 100), 10*time.Second)
}

func TestCarry(t *testing.T) {
	t.Parallel()
	carried := func(token string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationToken] = token }
	}
	recorded := func(token int64) func(*v1alpha1.SingletonJobStatus) {
		return func(s *v1alpha1.SingletonJobStatus) {
			s.History = append(s.History, v1alpha1.TermStatus{Token: token, Pod: "j-0", UID: "u0"})
		}
	}
	holds := func(token int64) func(*v1alpha1.SingletonJobStatus) {
		return func(s *v1alpha1.SingletonJobStatus) {
			s.Holder = &v1alpha1.HolderStatus{Pod: "j-0", UID: "u0", Token: token}
			s.Transitions = 3
		}
	}
	for name, tc := range map[string]struct {
		scene *scene
		want  lease.Carry
		no    bool
	}{
		"nothing":               {scene: newScene()},
		"an ended term":         {scene: newScene().status(recorded(7)), want: lease.Carry{Token: 7}},
		"a holder":              {scene: newScene().status(holds(7)), want: lease.Carry{Token: 7, Holder: "j-0_u0", Transitions: 3}},
		"a holder that ended":   {scene: newScene().status(holds(7)).status(recorded(7)), want: lease.Carry{Token: 7, Transitions: 3}},
		"an earlier holder":     {scene: newScene().status(holds(7)).status(recorded(8)), want: lease.Carry{Token: 8, Transitions: 3}},
		"a pod":                 {scene: newScene().withPod(0, carried("7")), want: lease.Carry{Token: 7, Holder: "j-0_u0"}},
		"a pod newer than all":  {scene: newScene().status(holds(7)).withPod(1, carried("9")), want: lease.Carry{Token: 9, Holder: "j-1_u1", Transitions: 3}},
		"a pod that ended":      {scene: newScene().status(recorded(7)).withPod(0, carried("7")), want: lease.Carry{Token: 7}},
		"a forged token":        {scene: newScene().withPod(0, carried("-7")).withPod(1, carried("x"))},
		"a floor":               {scene: newScene().status(func(s *v1alpha1.SingletonJobStatus) { s.TokenFloor = 99 }).status(holds(7)), want: lease.Carry{Token: 99, Holder: "j-0_u0", Transitions: 3}},
		"longer terms":          {scene: newScene().status(func(s *v1alpha1.SingletonJobStatus) { s.LongestDurationSeconds = 60 }), want: lease.Carry{Longest: time.Minute}},
		"an unrecorded success": {scene: newScene(policy(never)).withPod(0, carried("7"), ends(0)), no: true},
		"a success of what never ends": {scene: newScene().withPod(0, carried("7"), ends(0)),
			want: lease.Carry{Token: 7, Holder: "j-0_u0"}},
	} {
		got, ok := CarryOf(tc.scene.Job, tc.scene.Pods)
		if ok == tc.no {
			t.Errorf("%s: ok is %t", name, ok)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestHeldMessage(t *testing.T) {
	t.Parallel()
	waiting := func(reason, message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			runs(p)
			p.Status.ContainerStatuses[0].Image = "img"
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
		}
	}
	granted := func(changes ...func(*corev1.Pod)) *scene {
		return newScene(active(0)).withLease().withPod(0).granted(0).pod(0, changes...)
	}
	for name, tc := range map[string]struct {
		scene *scene
		want  string
	}{
		"nothing special": {granted(), "whose work has not started yet"},
		"being created":   {granted(waiting("ContainerCreating", "")), "whose work has not started yet"},
		"being deleted":   {granted(goes), "which is being deleted"},
		"gone":            {func() *scene { s := granted(); s.Pods = nil; return s }(), "which is gone"},
		"unschedulable": {granted(func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes"}}
		}), "which is unschedulable: 0/3 nodes"},
		"image":    {granted(waiting("ImagePullBackOff", "in 17 s")), "whose container app cannot get its image img"},
		"config":   {granted(waiting("CreateContainerConfigError", "no secret")), "cannot start: CreateContainerConfigError: no secret"},
		"crashing": {granted(waiting("CrashLoopBackOff", "back-off 20s")), "whose container app waits: CrashLoopBackOff"},
		"next":     {newScene(active(0)).withLease().withPod(0), "pod j-0 is next"},
		"none":     {newScene().withLease(), "about to be made"},
		"paused": {newScene(policy(never)).withLease().status(func(s *v1alpha1.SingletonJobStatus) {
			s.Failed, s.LastFailureTime = 1, metav1.NewTime(noon)
		}), "after a pause until 12:00:10 UTC"},
		"disputed": {newScene(active(0)).withLease().withPod(0).granted(0).confirmed().edit(func(l *coordinationv1.Lease) {
			l.Spec.HolderIdentity = ptr.To("someone")
		}), "was overwritten"},
	} {
		if got := messageOf(Decide(tc.scene.Observed).Status, v1alpha1.ConditionHeld); !strings.Contains(got, tc.want) {
			t.Errorf("%s: message is %q, want …%q…", name, got, tc.want)
		}
	}
}

func TestBlockedCondition(t *testing.T) {
	t.Parallel()
	says := func(text string) *scene {
		return newScene(active(0)).withLease().withPod(0).edit(func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.AnnotationBlocked] = text })
	}
	for name, tc := range map[string]struct {
		scene            *scene
		status, contains string
	}{
		"by the lease":          {says("HolderUnreachable: wait: or vouch"), "True/HolderUnreachable", "wait: or vouch"},
		"in other words":        {says("something is wrong"), "True/Blocked", "something is wrong"},
		"in strange words":      {says("not a reason: x"), "True/Blocked", "not a reason: x"},
		"too long":              {says("A: " + strings.Repeat("ä", 2000)), "True/A", "ä…"},
		"not, if it is over":    {says("A: b").closed(v1alpha1.ClosedCompleted), "False/NotBlocked", ""},
		"nobody's lease":        {newScene().withLease().edit(func(l *coordinationv1.Lease) { l.OwnerReferences = nil }), "True/LeaseConflict", "belongs to nobody"},
		"another owner's lease": {newScene().withLease().edit(func(l *coordinationv1.Lease) { l.OwnerReferences[0].UID = "x" }), "True/LeaseConflict", "SingletonJob j (uid x)"},
	} {
		got := Decide(tc.scene.Observed).Status
		wantEqual(t, name, conditionOf(got, v1alpha1.ConditionBlocked), tc.status)
		if message := messageOf(got, v1alpha1.ConditionBlocked); !strings.Contains(message, tc.contains) {
			t.Errorf("%s: message is %q", name, message)
		}
	}
}

func TestBlockedIsToldOnce(t *testing.T) {
	t.Parallel()
	s := newScene(active(0)).withLease().withPod(0).seen()
	s.edit(func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.AnnotationBlocked] = "A: b" })
	wantEqual(t, "events", reasons(Decide(s.Observed)), "A")
	s.seen().edit(func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.AnnotationBlocked] = "A: c" })
	wantEqual(t, "events", reasons(Decide(s.Observed)), "")
	s.seen().edit(func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.AnnotationBlocked] = "D: e" })
	wantEqual(t, "events", reasons(Decide(s.Observed)), "D")
	s.seen().edit(func(l *coordinationv1.Lease) { delete(l.Annotations, v1alpha1.AnnotationBlocked) })
	wantEqual(t, "events", reasons(Decide(s.Observed)), "Unblocked")
}

func TestSuspendedAndResumedAreTold(t *testing.T) {
	t.Parallel()
	s := newScene(suspend).withLease().closed(v1alpha1.ClosedSuspended)
	wantEqual(t, "events", reasons(Decide(s.Observed)), "Suspended")
	s.seen().Job.Spec.Suspend = nil
	wantEqual(t, "events", reasons(Decide(s.Observed)), "Resumed")
}

func TestFailedKeepsItsWord(t *testing.T) {
	t.Parallel()
	s := newScene(policy(never), is(v1alpha1.ConditionFailed)).withLease().closed(v1alpha1.ClosedCompleted)
	got := Decide(s.Observed).Status
	wantEqual(t, "Failed", conditionOf(got, v1alpha1.ConditionFailed)+" "+messageOf(got, v1alpha1.ConditionFailed), "True/Earlier earlier")
	wantEqual(t, "Complete", conditionOf(got, v1alpha1.ConditionComplete), "False/NotFinished")
}

// The history is bounded, newest first, and one entry a term.
func TestHistory(t *testing.T) {
	t.Parallel()
	s := newScene(active(0)).withLease().withPod(0)
	for range 12 {
		s.granted(0).confirmed().pod(0, runs).seen().released(v1alpha1.OutcomeRestarted).seen().seen()
	}
	history := s.Job.Status.History
	wantEqual(t, "length", len(history), historyLimit)
	for i, h := range history[1:] {
		if h.Token >= history[i].Token {
			t.Errorf("tokens are not newest first: %v", history)
		}
	}
	wantEqual(t, "transitions", s.Job.Status.Transitions, 12)

	// A pod whose term is older than all of it does not come back.
	s.withPod(5, runs, func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationToken] = "3" })
	wantEqual(t, "events", reasons(Decide(s.Observed)), "")
}

// Terms of which the Lease names the end only, or not even that.
func TestTermsThatNobodySawEnd(t *testing.T) {
	t.Parallel()
	s := newScene(active(0, 1)).withLease().withPod(0).withPod(1).granted(0).confirmed().pod(0, runs).lapsed().granted(1)
	s.Job.Status.Holder = nil
	wantEqual(t, "history", historyOf(Decide(s.Observed).Status), "j-0:101 Lapsed")
	s.confirmed().lapsed().granted(1)
	wantEqual(t, "history", historyOf(Decide(s.Observed).Status), "j-0:101 Unknown")
	s.pod(0, func(p *corev1.Pod) {
		p.Annotations[v1alpha1.AnnotationToken] = "1"
		p.Annotations[v1alpha1.AnnotationEndedToken] = s.Lease.Annotations[v1alpha1.AnnotationReleasedToken]
	})
	wantEqual(t, "history", historyOf(Decide(s.Observed).Status), "j-0:104 Lapsed")
}

func TestCarriedHolderIsKept(t *testing.T) {
	t.Parallel()
	s := newScene(active(0), func(job *v1alpha1.SingletonJob) { job.Spec.Lease.MinToken = 1 << 40 }).
		status(func(st *v1alpha1.SingletonJobStatus) { st.TokenFloor = 1<<40 + 1000 }).withLease().withPod(0).granted(0).confirmed().pod(0, runs).seen()
	before := *s.Job.Status.Holder
	carry, _ := CarryOf(s.Job, s.Pods)
	s.Lease = lease.New(s.Lease.ObjectMeta, LeaseConfig(s.Job, s.Job.Status.TokenFloor), carry)
	s.wrote()
	s.seen()
	if diff := cmp.Diff(before, *s.Job.Status.Holder); diff != "" {
		t.Errorf("the holder was forgotten:\n%s", diff)
	}
	s.closed("").lapsed()
	wantEqual(t, "history", historyOf(Decide(s.Observed).Status), "j-0:1099511627776 Lapsed")

	s = newScene(active(0)).withLease().withPod(0).granted(0).confirmed().edit(func(l *coordinationv1.Lease) { l.Annotations[v1alpha1.AnnotationHolder] = "nonsense" })
	if h := Decide(s.Observed).Status.Holder; h != nil {
		t.Errorf("holder is %+v", h)
	}
}

// The holder's node is remembered when its pod is gone.
func TestHolderNode(t *testing.T) {
	t.Parallel()
	s := newScene(active(0)).withLease().withPod(0).granted(0).confirmed().pod(0, runs).seen()
	s.Pods = nil
	wantEqual(t, "node", Decide(s.Observed).Status.Holder.Node, "node")
}

func TestObstructed(t *testing.T) {
	t.Parallel()
	s := newScene().withLease()
	wantEqual(t, "free", Obstructed(s.Observed), false)
	s.Strangers = []string{"j-0"}
	wantEqual(t, "stranger", Obstructed(s.Observed), true)
	s.Strangers, s.Lease.Labels = nil, nil
	wantEqual(t, "foreign", Obstructed(s.Observed), true)
}

// What is configured where the job does not fit is what the Lease can be read
// with. The control: what the job says would make it one that cannot be.
func TestAnUnfitSpecIsNotWritten(t *testing.T) {
	t.Parallel()
	s := newScene(active(0)).withLease().withPod(0).job(unfit, suspend)
	p := Decide(s.Observed)
	written := p.Actions[0].(UpdateLease).Lease
	if r, err := lease.Parse(written); err != nil || r.Config.Duration != 15*time.Second {
		t.Errorf("the Lease says %s: %v", r.Config.Duration, err)
	}
	wantEqual(t, "Blocked", conditionOf(p.Status, v1alpha1.ConditionBlocked), "True/InvalidSpec")
	for _, word := range []string{"spec.lease", "duration 1s is too short", "at least 3s", "lease j stays as it was"} {
		if got := messageOf(p.Status, v1alpha1.ConditionBlocked); !strings.Contains(got, word) {
			t.Errorf("no %q in %q", word, got)
		}
	}
	LeaseConfig(s.Job, 0).Write(written)
	if _, err := lease.Parse(written); err == nil {
		t.Error("the control is none: the Lease could be read")
	}
}

// What else holds the lease up comes first, since it may be the reason of a
// refusal; and nothing is lost of it.
func TestARefusalHidesNothing(t *testing.T) {
	t.Parallel()
	s := held(never).pod(0, runs, goes).edit(func(l *coordinationv1.Lease) {
		l.Annotations[v1alpha1.AnnotationBlocked] = "HolderUnreachable: ways out"
	}).refused("create pod j-1: exceeded quota")
	got := Decide(s.Observed).Status
	wantEqual(t, "Blocked", conditionOf(got, v1alpha1.ConditionBlocked), "True/HolderUnreachable")
	for _, word := range []string{"ways out. Besides", "create pod j-1: exceeded quota"} {
		if got := messageOf(got, v1alpha1.ConditionBlocked); !strings.Contains(got, word) {
			t.Errorf("no %q in %q", word, got)
		}
	}
	s.Lease.Labels = nil
	wantEqual(t, "a foreign Lease", conditionOf(Decide(s.Observed).Status, v1alpha1.ConditionBlocked), "True/LeaseConflict")
	s.Job.Finalizers = nil
	wantEqual(t, "the first write", conditionOf(Decide(s.Observed).Status, v1alpha1.ConditionBlocked), "True/LeaseConflict")
	s.Lease = nil
	wantEqual(t, "no Lease", conditionOf(Decide(s.Observed).Status, v1alpha1.ConditionBlocked), "True/WriteRefused")
}

// Where nothing is granted, since no pod can be granted anything, Held says why.
func TestWhyThePodIsNotGranted(t *testing.T) {
	t.Parallel()
	warm := func() *scene { return newScene(standbys(1), active(0, 1)).withLease().withPod(0).withPod(1) }
	for name, tc := range map[string]struct {
		scene *scene
		want  string
	}{
		"no image": {warm().pod(0, runs, func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].Image = "nope"
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
		}), "pod j-0 is next, whose container app cannot get its image nope"},
		"no node": {warm().pod(0, func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes"}}
		}), "pod j-0 is next, which is unschedulable: 0/3 nodes"},
		"another's gate": {newScene(active(0)).withLease().withPod(0, func(p *corev1.Pod) {
			p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "example.com/slow"})
		}), "once whoever set its scheduling gate example.com/slow has removed that"},
		"nothing": {newScene(active(0)).withLease().withPod(0), "; pod j-0 is next"},
	} {
		got := messageOf(Decide(tc.scene.Observed).Status, v1alpha1.ConditionHeld)
		if !strings.HasSuffix(got, tc.want) {
			t.Errorf("%s: no %q in %q", name, tc.want, got)
		}
	}
	s := newScene(func(job *v1alpha1.SingletonJob) { job.Namespace = corev1.NamespaceNodeLease })
	wantEqual(t, "the nodes' namespace", conditionOf(Decide(s.Observed).Status, v1alpha1.ConditionBlocked), "True/InvalidSpec")
}
