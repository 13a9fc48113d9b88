// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"leasehold.dev/api/v1alpha1"
	"leasehold.dev/leaderelect/lease"
)

// tick is the model's unit of time.
const tick = 10 * time.Second

var epoch = time.Unix(1_000_000_000, 0)

// trustOf is for how many ticks a term of a duration is trusted.
func trustOf(duration uint8) uint8 {
	return uint8(lease.Timing{Duration: ticks(duration)}.Trust() / tick)
}

// ticks is a duration of a view as time.
func ticks(n uint8) time.Duration {
	if n == second {
		return time.Second
	}
	return time.Duration(n) * tick
}

func inTicks(d time.Duration) uint8 {
	if d == time.Second {
		return second
	}
	return uint8(d / tick)
}

func holderName(w who) string {
	switch w {
	case nobody:
		return ""
	case stranger:
		return "stranger"
	}
	return lease.Holder("pod", uidOf(w))
}

func uidOf(w who) string { return "uid" + strconv.Itoa(int(w)) }

func whoHas(name string) who {
	for w := nobody; w <= stranger; w++ {
		if holderName(w) == name {
			return w
		}
	}
	panic("unknown holder " + name)
}

// realNonce is the nonce that an agent would write: all agents of one machine's
// boot, in containers of one name.
func realNonce(n nonce) lease.Nonce {
	number, run := (n-1)/4, (n-1)%4
	return lease.Nonce{Container: "work", Boot: "boot", Ticks: 10 + uint64(run), Random: strconv.Itoa(int(number))}
}

func nonceText(n nonce) string {
	switch {
	case n == noNonce:
		return ""
	case n == unknown:
		return lease.StartedUnknown
	case n == past:
		return "work.boot-1.past"
	case n > ofPod:
		return uidOf(n - ofPod)
	}
	return realNonce(n).String()
}

func nonceHas(text string) nonce {
	switch {
	case text == "":
		return noNonce
	case text == lease.StartedUnknown:
		return unknown
	case strings.HasPrefix(text, "uid"):
		return ofPod + text[len(text)-1] - '0'
	}
	n, err := lease.ParseNonce(text)
	if err != nil {
		panic(err)
	}
	return 1 + 4*(n.Random[0]-'0') + nonce(n.Ticks-10)
}

// configOf is the configuration that a view's Lease carries.
func (m *Config) configOf(v view) lease.Config {
	c := lease.Config{
		Duration: ticks(v.Configured), RenewInterval: tick / 2, TakeUp: time.Hour, LockDelay: time.Second,
		OverlapPolicy: m.Policy, RenewedBy: m.RenewedBy, CloseOnSuccess: m.ToCompletion, TokenFloor: lease.MaxToken,
	}
	if m.MinToken {
		c.MinToken, c.TokenFloor = int64(raised), int64(v.Floor)
	}
	return c
}

// toLease makes the Lease that a view stands for.
func (m *Config) toLease(v view, c lease.Config) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name: "lease", UID: types.UID(decimal(v.UID)), ResourceVersion: decimal(v.RV),
		Labels: map[string]string{v1alpha1.LabelManaged: "true"},
	}}
	c.Write(l)
	a := l.Annotations
	for key, n := range map[string]num{
		v1alpha1.AnnotationToken: v.Token, v1alpha1.AnnotationReleasedToken: v.Released,
	} {
		if n != 0 {
			a[key] = decimal(n)
		}
	}
	for key, text := range map[string]string{
		v1alpha1.AnnotationHolder: holderName(v.Grantee), v1alpha1.AnnotationStarted: nonceText(v.Started),
		v1alpha1.AnnotationClosed: string(closedText[v.Closed]),
	} {
		if text != "" {
			a[key] = text
		}
	}
	if v.Longest != 0 {
		a[v1alpha1.AnnotationLongestDuration] = strconv.Itoa(int(ticks(v.Longest) / time.Second))
	}
	m.toSpec(v, l)
	return l
}

var closedText = [...]v1alpha1.Closed{"", v1alpha1.ClosedNew, v1alpha1.ClosedCompleted}

func (m *Config) toSpec(v view, l *coordinationv1.Lease) {
	holder, transitions := holderName(v.Holder), int32(0)
	if v.Token != 0 {
		l.Annotations[v1alpha1.AnnotationTerm] = "3"
		transitions = 3
	}
	if !v.SameTerm {
		transitions++
	}
	l.Spec.HolderIdentity, l.Spec.LeaseTransitions = &holder, &transitions
	if v.Duration != 0 {
		seconds := int32(ticks(v.Duration) / time.Second)
		l.Spec.LeaseDurationSeconds = &seconds
	}
	if v.Stamp != 0 {
		l.Spec.RenewTime = &metav1.MicroTime{Time: epoch.Add(time.Duration(v.Stamp) * time.Minute)}
	}
	if v.Deleting {
		l.DeletionTimestamp = &metav1.Time{Time: epoch}
	}
	if v.Finalizer {
		l.Finalizers = []string{v1alpha1.FinalizerLease}
	}
}

// toView reads back a Lease that the protocol returned for a write made from
// the view before (zero: a create).
func toView(l *coordinationv1.Lease, before view) view {
	r, err := lease.Parse(l)
	if err != nil {
		panic(fmt.Sprintf("the protocol returned a Lease that it cannot read: %v", err))
	}
	v := view{
		Token: num(r.Token), Released: num(r.Released), Holder: whoHas(r.Holder), Grantee: whoHas(r.GrantHolder),
		Started: nonceHas(r.Started), Duration: inTicks(r.Duration), Configured: inTicks(r.Config.Duration),
		Longest: longest(l), SameTerm: r.Term == r.Transitions, Floor: before.Floor, Stamp: before.Stamp,
		Deleting: l.DeletionTimestamp != nil, Finalizer: len(l.Finalizers) > 0,
	}
	for i, c := range closedText {
		if c == r.Closed {
			v.Closed = uint8(i)
		}
	}
	v.UID, v.RV = parse(string(l.UID)), parse(l.ResourceVersion)
	if (before.Stamp == 0) == (l.Spec.RenewTime != nil) ||
		(before.Stamp != 0 && !l.Spec.RenewTime.Equal(&metav1.MicroTime{Time: epoch.Add(time.Duration(before.Stamp) * time.Minute)})) {
		v.Stamp = fresh
	}
	return v
}

func longest(l *coordinationv1.Lease) uint8 {
	n, err := strconv.Atoi(l.Annotations[v1alpha1.AnnotationLongestDuration])
	if err != nil {
		return 0
	}
	return inTicks(time.Duration(n) * time.Second)
}

func decimal(n num) string { return strconv.Itoa(int(n)) }

func parse(s string) num {
	n, _ := strconv.Atoi(s) // Empty on a create.
	return num(n)
}
