// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	corev1 "k8s.io/api/core/v1"

	"leasehold.dev/api/v1alpha1"
)

// The steps of containers and their kubelets.

func (m *model) kubelet() bool { return m.RenewedBy == v1alpha1.RenewedByKubelet }
func (m *model) sidecar() bool { return m.RenewedBy == v1alpha1.RenewedBySidecar }
func (m *model) forbid() bool  { return m.Policy == v1alpha1.OverlapForbid }

// restarts reports whether a kubelet starts a container again after an exit.
func (m *model) restarts(exit uint8) bool {
	return m.Restart == corev1.RestartPolicyOnFailure && exit != 0
}

func (m *model) podSteps(s *state, p int) {
	pod := &s.Pod[p]
	switch pod.Now.State {
	case waiting:
		if !pod.Gated && !pod.Deleting {
			m.do(s, label{Kind: boots, Who: p}, func(n *state) bool { return m.boot(n, p) })
		}
	case running:
		m.runningSteps(s, p)
	case terminated:
		if m.restarts(pod.Now.Exit) && pod.Run < m.Restarts {
			m.do(s, label{Kind: restarts, Who: p}, func(n *state) bool { return m.restart(n, p) })
		}
	}
	if pod.Report != pod.Now {
		m.do(s, label{Kind: reports, Who: p}, func(n *state) bool {
			n.Pod[p].Report = n.Pod[p].Now
			if m.ToCompletion && n.Pod[p].Now.State == terminated && n.Pod[p].Now.Exit == 0 {
				n.Succeeded = true
			}
			return true
		})
	}
}

// boot starts the container of a pod that has lost its gate. Where no agent is
// in it, that is the start of the work, with the token of the annotation.
func (m *model) boot(s *state, p int) bool {
	pod := &s.Pod[p]
	pod.Now.State = running
	if m.kubelet() {
		startWork(s, pod.Token)
		pod.Work = pod.Token
		return true
	}
	s.Agent[p] = agent{Phase: idle}
	return true
}

func (m *model) runningSteps(s *state, p int) {
	if s.Left.Crashes > 0 {
		m.do(s, label{Kind: crashes, Who: p}, func(n *state) bool {
			n.Left.Crashes--
			if m.sidecar() {
				return m.restartSidecar(n, p)
			}
			return m.exit(n, p, 1)
		})
	}
	if m.kubelet() {
		m.do(s, label{Kind: succeedsWork, Who: p}, func(n *state) bool { return m.exit(n, p, 0) })
	}
}

// exit ends the container and every process in it.
func (m *model) exit(s *state, p int, code uint8) bool {
	pod := &s.Pod[p]
	pod.Now = report{State: terminated, Exit: code, Message: pod.File, Before: pod.Now.Before, LastExit: pod.Now.LastExit, LastMsg: pod.Now.LastMsg}
	pod.File = noNonce
	if m.kubelet() {
		pod.Work = 0
	}
	for a := range s.Agent {
		if podOf(a) == p {
			s.Agent[a] = agent{}
		}
	}
	return true
}

// restart starts the container again, in place, with a new agent in it.
func (m *model) restart(s *state, p int) bool {
	pod := &s.Pod[p]
	pod.Now = report{State: running, Before: true, LastExit: pod.Now.Exit, LastMsg: pod.Now.Message}
	pod.Run++
	s.Agent[p] = agent{Phase: idle}
	return true
}

// restartSidecar: the agent's own container restarts; the work runs on in its.
func (m *model) restartSidecar(s *state, p int) bool {
	if s.Pod[p].Run == m.Restarts {
		return false
	}
	s.Pod[p].Run++
	s.Agent[p] = agent{Phase: idle}
	return true
}
